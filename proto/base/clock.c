/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include "proto/base/units.h"

static int64_t
now_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * PR_NS_PER_S + ts.tv_nsec;
}

int64_t
pr_now_real(void)
{
	return now_of(CLOCK_REALTIME);
}

int64_t
pr_now_mono(void)
{
	return now_of(CLOCK_MONOTONIC);
}

int64_t
pr_tai_ahead(void)
{
	struct timespec tai, utc;

	clock_gettime(CLOCK_REALTIME, &utc);
	clock_gettime(CLOCK_TAI, &tai);
	/* the two were read within much less than half of a second */
	int64_t ahead = pr_time_make(tai.tv_sec, tai.tv_nsec) -
			pr_time_make(utc.tv_sec, utc.tv_nsec);
	return (ahead + PR_NS_PER_S / 2) / PR_NS_PER_S * PR_NS_PER_S;
}

bool
pr_clock_read(struct pr_clock_reading *out)
{
	struct timex t = {0};
	int64_t before = pr_now_mono();

	out->real = pr_now_real();
	out->raw = now_of(CLOCK_MONOTONIC_RAW);
	int64_t after = pr_now_mono();
	out->mono = before + (after - before) / 2;
	if (after - before > PR_CLOCK_READING_NS)
		return false;
	int state = adjtimex(&t);
	out->known = state >= 0;
	out->synchronized = state != TIME_ERROR && !(t.status & STA_UNSYNC);
	return true;
}

int64_t
pr_time_make(int64_t sec, int64_t nsec)
{
	int64_t t, carry = nsec / PR_NS_PER_S;

	nsec %= PR_NS_PER_S;
	if (__builtin_add_overflow(sec, carry, &sec))
		return carry < 0 ? PR_TIME_MIN : PR_TIME_MAX;
	/* one sign for both parts, so that the product overflows only if the sum does */
	if (sec < 0 && nsec > 0) {
		sec++;
		nsec -= PR_NS_PER_S;
	}
	if (__builtin_mul_overflow(sec, PR_NS_PER_S, &t) ||
		__builtin_add_overflow(t, nsec, &t))
		return sec < 0 ? PR_TIME_MIN : PR_TIME_MAX;
	return t;
}

int64_t
pr_time_from_pcap(int64_t sec, int64_t nsec)
{
	if (sec < 0 && sec >= INT32_MIN)
		sec += INT64_C(1) << 32;
	return pr_time_make(sec, nsec);
}

static char *
format(int64_t t, struct tm *to_tm(const time_t *, struct tm *), char *buf, size_t size)
{
	int64_t ns = t % PR_NS_PER_S;
	time_t sec = t / PR_NS_PER_S;
	char date[32], zone[8] = "Z";
	struct tm tm;

	if (ns < 0) {
		ns += PR_NS_PER_S;
		sec--;
	}
	to_tm(&sec, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	if (tm.tm_gmtoff)
		snprintf(zone, sizeof zone, "%+03d:%02d", (int)tm.tm_gmtoff / 3600 % 24,
			abs((int)tm.tm_gmtoff / 60 % 60));
	snprintf(buf, size, "%s.%09lld%s", date, (long long)ns, zone);
	return buf;
}

char *
pr_time_format(int64_t t, char *buf, size_t size)
{
	return format(t, gmtime_r, buf, size);
}

char *
pr_time_local(int64_t t, char *buf, size_t size)
{
	return format(t, localtime_r, buf, size);
}

/* Exactly n digits, advancing *at. */
static bool
take_digits(const char **at, int n, int *out)
{
	*out = 0;
	while (n--) {
		if (!isdigit((unsigned char)**at))
			return false;
		*out = *out * 10 + (*(*at)++ - '0');
	}
	return true;
}

static bool
take_char(const char **at, const char *any)
{
	if (!**at || !strchr(any, **at))
		return false;
	(*at)++;
	return true;
}

/* An optional ".digits" in ns, at most nine digits: more would be lost silently. */
static bool
take_fraction(const char **at, int64_t *ns)
{
	int64_t worth = PR_NS_PER_S / 10;

	*ns = 0;
	if (!take_char(at, "."))
		return true;
	if (!isdigit((unsigned char)**at))
		return false;
	for (; isdigit((unsigned char)**at); (*at)++, worth /= 10) {
		if (worth == 0)
			return false;
		*ns += (**at - '0') * worth;
	}
	return true;
}

/* "2026-11-21", then optionally "T00:40", ":05" and a fraction. */
static bool
take_date(const char **at, struct tm *tm, int64_t *ns)
{
	*tm = (struct tm){.tm_isdst = -1};
	*ns = 0;
	if (!take_digits(at, 4, &tm->tm_year) || !take_char(at, "-") ||
		!take_digits(at, 2, &tm->tm_mon) || !take_char(at, "-") ||
		!take_digits(at, 2, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon -= 1;
	if (!take_char(at, "Tt "))
		return true;
	if (!take_digits(at, 2, &tm->tm_hour) || !take_char(at, ":") ||
		!take_digits(at, 2, &tm->tm_min))
		return false;
	if (!take_char(at, ":"))
		return true;
	return take_digits(at, 2, &tm->tm_sec) && take_fraction(at, ns);
}

static bool
parse_date(const char *text, int64_t *out)
{
	const char *at = text;
	struct tm tm;
	int64_t ns, east = 0;
	int hours, minutes;

	if (!take_date(&at, &tm, &ns))
		return false;
	/* timegm takes February the 31st for a day in March; a second of 60 is a leap second. */
	struct tm copy = (struct tm){
		.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday};
	timegm(&copy);
	if (copy.tm_mon != tm.tm_mon || copy.tm_mday != tm.tm_mday || tm.tm_hour > 23 ||
		tm.tm_min > 59 || tm.tm_sec > 60)
		return false;
	if (!*at) {
		*out = pr_time_make(mktime(&tm), ns);
		return true;
	}
	/* "Z" or "+hh:mm"; seconds east of Greenwich. */
	int sign = *at == '-' ? -1 : 1;
	if (!take_char(&at, "Zz")) {
		if (!take_char(&at, "+-") || !take_digits(&at, 2, &hours) ||
			!take_char(&at, ":") || !take_digits(&at, 2, &minutes) ||
			hours > 23 || minutes > 59)
			return false;
		east = sign * (hours * 3600 + minutes * 60);
	}
	if (*at)
		return false;
	*out = pr_time_make(timegm(&tm) - east, ns);
	return true;
}

/* "@-1.5" is one and a half seconds before 1970. */
static bool
parse_unix(const char *text, int64_t *out)
{
	bool negative = *text == '-';
	const char *at = text + negative;
	int64_t sec = 0, ns;

	if (!isdigit((unsigned char)*at))
		return false;
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(sec, 10, &sec) ||
			__builtin_add_overflow(sec, *at - '0', &sec))
			return false;
	if (!take_fraction(&at, &ns) || *at)
		return false;
	*out = negative ? pr_time_make(-sec, -ns) : pr_time_make(sec, ns);
	return true;
}

/* "90s ago", "5 min ago", "-1h", "5m", "+10m": a duration before or after now. */
static bool
parse_offset(const char *text, int64_t now, int64_t *out)
{
	size_t len = strlen(text), used = 0;
	bool ago = len >= 4 && strcmp(text + len - 4, " ago") == 0;
	bool sign = !ago && (*text == '-' || *text == '+'), before = *text != '+';
	char amount[40];
	int64_t ns;

	len -= ago ? 4 : 0;
	if (len >= sizeof amount)
		return false;
	for (size_t i = sign; i < len; i++) /* a space may stand before the unit */
		if (text[i] != ' ' || !isdigit((unsigned char)text[i ? i - 1 : 0]))
			amount[used++] = text[i];
	amount[used] = '\0';
	/* without sign, `ago` or unit it may be a year or an hour */
	if ((!ago && !sign && strspn(amount, "0123456789.") == used) ||
		pr_parse_duration(amount, &ns) < 0)
		return false;
	if (before ? __builtin_sub_overflow(now, ns, out)
		   : __builtin_add_overflow(now, ns, out))
		*out = before ? PR_TIME_MIN : PR_TIME_MAX;
	return true;
}

/* "today", "yesterday", "tomorrow", each also with a time; "09:30", "09:30:15.5": of today. */
static bool
parse_day(const char *text, int64_t now, int64_t *out)
{
	static const char *const days[] = {"yesterday", "today", "tomorrow"};
	time_t seconds = (time_t)(now / PR_NS_PER_S);
	const char *time = text;
	char date[80];
	struct tm tm;
	int day = 0;

	while (day < 3 && strncmp(text, days[day], strlen(days[day])) != 0)
		day++;
	if (day < 3) {
		time += strlen(days[day]);
		if (*time && *time++ != ' ')
			return false;
	}
	size_t digits = strspn(time, "0123456789");
	if (day == 3 || time[-1] == ' ' ? digits < 1 || digits > 2 || time[digits] != ':'
					: *time != 0)
		return false;
	if (!localtime_r(&seconds, &tm))
		return false;
	tm.tm_mday += day == 3 ? 0 : day - 1;
	tm.tm_hour = 12; /* the day is the same whether summer time begins or ends */
	tm.tm_isdst = -1;
	mktime(&tm);
	snprintf(date, sizeof date, "%04d-%02d-%02d%s%s%.40s", tm.tm_year + 1900,
		tm.tm_mon + 1, tm.tm_mday, *time ? "T" : "", digits == 1 ? "0" : "", time);
	return parse_date(date, out);
}

int
pr_time_parse(const char *text, int64_t now, int64_t *out, struct pr_error *err)
{
	if (strcmp(text, "now") == 0) {
		*out = now;
		return 0;
	}
	if (text[0] == '@' ? parse_unix(text + 1, out)
			   : parse_offset(text, now, out) || parse_day(text, now, out) ||
				     parse_date(text, out))
		return 0;
	return pr_error_set(err, "'%s' is not a time; forms are: " PR_TIME_FORMS, text);
}
