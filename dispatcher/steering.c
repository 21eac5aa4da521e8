/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/steering.h"

#include "dispatcher/sender.h"

/* Room for an item's key and its text. */
struct texts {
	char key[PR_MESSAGE_NAME_MAX + 1], what[PR_MESSAGE_NAME_MAX + 1],
		text[PR_STATE_CLASS_TEXT + 1];
};

/* The text of a class in the configuration, or NULL. */
static const char *
configured(const struct prd_steering *s, const char *name)
{
	char has[PR_NAME_MAX + 1];

	for (size_t i = 0; i < s->configured->count; i++)
		if (prd_class_name(s->configured->items[i], has, NULL) == 0 &&
			!strcmp(has, name))
			return s->configured->items[i];
	return NULL;
}

/* ---- to the send thread ---- */

/* Makes the event of an item. -1: the item makes no sense. */
static int
make_event(const struct prd_steering *s, const Packrack__SteerRule *item,
	struct prd_event *event, struct pr_error *err)
{
	struct texts t;
	bool comes = !item->removed;

	if (strcmp(item->verb, "class") != 0) {
		enum prd_rule_kind kind =
			!strcmp(item->verb, "suspend") ? PRD_RULE_SUSPEND : PRD_RULE_MOVE;

		event->kind = PRD_EVENT_RULE;
		event->u.steer.comes = comes;
		if (prd_rule_parse(&event->u.steer.rule, kind, item->what, err) < 0)
			return -1;
		prd_rule_key(&event->u.steer.rule, t.key, sizeof t.key);
	} else {
		event->kind = PRD_EVENT_CLASSES;
		snprintf(t.key, sizeof t.key, "class %s", item->what);
		event->u.classes = prd_classes_change(s->classes, comes ? NULL : item->what,
			comes ? item->text : configured(s, item->what), err);
		/* what comes from elsewhere, in any order, has been checked there */
		if (!event->u.classes || (s->request && prd_classes_check(event->u.classes,
								s->classes, err) < 0))
			return -1;
	}
	return strcmp(t.key, item->key) ? pr_error_set(err, "the key of a change is wrong")
					: 0;
}

static int
apply(void *arg, const Packrack__SteerRule *item, struct pr_error *err)
{
	struct prd_steering *s = arg;
	struct prd_event event = {.request = s->request}, *to;

	if (!s->cutoff || item->hold) /* we only keep it */
		return 0;
	int rc = make_event(s, item, &event, err);
	if (rc == 0 && !(to = pr_ring_reserve(s->events, sizeof *to)))
		rc = pr_error_set(err, "too many commands are under way: try again");
	if (rc < 0) {
		if (event.kind == PRD_EVENT_CLASSES)
			prd_classes_free(event.u.classes, s->classes);
		return -1;
	}
	if (event.kind == PRD_EVENT_CLASSES)
		s->classes = event.u.classes;
	*to = event;
	pr_ring_commit(s->events, sizeof *to);
	pr_ring_publish(s->events);
	return 0;
}

/* ---- commands ---- */

/* The keys of a class, and in place of those that are in both, or behind them, the new ones. */
static int
set_keys(const char *name, const char *was, const char *more, char text[], size_t room,
	struct pr_error *err)
{
	char *copy = strdup(was), *rest = copy;
	size_t len = (size_t)snprintf(text, room, "%s", name);

	for (char *part = copy; copy && (part = strsep(&rest, ";\n"));) {
		part += strspn(part, " \t");
		size_t key = strcspn(part, " \t=");
		const char *other = more;

		while (*other &&
			(strncmp(other, part, key) != 0 || !strchr(" \t=", other[key]))) {
			other += strcspn(other, ";\n");
			other += strspn(other, ";\n \t");
		}
		if (part != copy && key && !*other && len < room)
			len += (size_t)snprintf(text + len, room - len, "; %s", part);
	}
	free(copy);
	if (len < room)
		len += (size_t)snprintf(text + len, room - len, "; %s", more);
	return copy && len < room
		       ? 0
		       : pr_error_set(err, "class %s: its text is too long", name);
}

static int
take_class(const struct prd_steering *s, const struct pr_state_verb *verb,
	const Packrack__Command *command, Packrack__SteerRule *item, struct texts *t,
	struct pr_error *err)
{
	if (prd_class_name(command->node, t->what, err) < 0)
		return -1;
	PR_PRINT(t->key, "class %.*s", PR_NAME_MAX, t->what);
	const Packrack__SteerRule *live = pr_state_find(&s->state, t->key);
	live = live && !live->removed ? live : NULL;
	const char *was = live ? live->text : configured(s, t->what);
	if (!strcmp(verb->name, "class-add") ? was != NULL : was == NULL)
		return pr_error_set(err,
			was ? "there is a class %s already: 'class set' changes it"
			    : "there is no class %s: 'class list' shows them",
			t->what);
	if (verb->removed && !live)
		return pr_error_set(
			err, "class %s is in the dispatcher's configuration", t->what);
	if (verb->removed)
		item->until = item->at + PR_STATE_REMOVED_NS;
	else if (set_keys(t->what, was ? was : "", command->text, t->text, sizeof t->text,
			 err) < 0)
		return -1;
	item->text = t->text;
	return 0;
}

static int
take_rule(const struct prd_steering *s, const struct pr_state_verb *verb,
	const Packrack__Command *command, Packrack__SteerRule *item, struct texts *t,
	struct pr_error *err)
{
	struct prd_rule rule;

	if (prd_rule_parse(&rule,
		    !strcmp(verb->of, "suspend") ? PRD_RULE_SUSPEND : PRD_RULE_MOVE,
		    command->node, err) < 0)
		return -1;
	prd_rule_key(&rule, t->key, sizeof t->key);
	PR_PRINT(t->what, "%s", command->node);
	const Packrack__SteerRule *live = pr_state_find(&s->state, t->key);
	if (verb->removed) {
		if (!live || live->removed)
			return pr_error_set(err,
				"it is not %s: 'class list' shows what was changed",
				rule.kind == PRD_RULE_SUSPEND ? "suspended" : "moved");
		item->until = live->until;
		return 0;
	}
	if (rule.class[0] && !prd_classes_have(s->classes, rule.class))
		return pr_error_set(err, "there is no class '%s'", rule.class);
	if (!command->seconds)
		return pr_error_set(err, "it needs an end: --for DURATION");
	item->until = item->at + command->seconds * PR_NS_PER_S;
	return 0;
}

int
prd_steering_command(struct prd_steering *s, const Packrack__Command *command,
	const char *user, uint64_t request, struct pr_error *err)
{
	const struct pr_state_verb *verb = pr_state_verb(command->verb);
	Packrack__SteerRule item = PACKRACK__STEER_RULE__INIT;
	struct texts t = {"", "", ""};

	if (!s->cutoff)
		return pr_error_set(err, "this dispatcher has no classes: see --class");
	item.verb = (char *)verb->of;
	item.key = t.key;
	item.what = t.what;
	item.user = (char *)user;
	item.reason = command->reason;
	item.removed = verb->removed;
	item.at = pr_state_time(&s->state, pr_now_real());
	if ((!strcmp(verb->of, "class") ? take_class : take_rule)(
		    s, verb, command, &item, &t, err) < 0)
		return -1;
	s->request = request;
	int rc = pr_state_put(&s->state, &item, item.at, err);
	s->request = 0;
	return rc == 0 ? pr_error_set(err, "it has ended") : PR_MIN(rc, 0);
}

/* ---- the whole ---- */

static void
add_class(struct prd_steering *s, Packrack__Status *status, char *text)
{
	if (status->n_classes == PRD_STEERING_CLASSES)
		return;
	Packrack__RackClass *c = &s->class_items[status->n_classes];
	packrack__rack_class__init(c);
	c->text = text;
	s->class_pointers[status->n_classes++] = c;
}

void
prd_steering_status(struct prd_steering *s, Packrack__Status *status)
{
	char name[PR_NAME_MAX + 1], key[PR_MESSAGE_NAME_MAX];

	status->rules = s->rules;
	status->classes = s->class_pointers;
	for (size_t i = 0; i < s->configured->count; i++) {
		prd_class_name(s->configured->items[i], name, NULL); /* it is one */
		PR_PRINT(key, "class %s", name);
		const Packrack__SteerRule *live = pr_state_find(&s->state, key);
		if (!live || live->removed)
			add_class(s, status, s->configured->items[i]);
	}
	for (size_t i = 0; i < s->state.count; i++) {
		Packrack__SteerRule *item = s->state.items[i];

		if (item->removed || item->hold)
			continue;
		s->rules[status->n_rules++] = item;
		if (!strcmp(item->verb, "class"))
			add_class(s, status, item->text);
	}
}

void
prd_steering_init(struct prd_steering *s, struct prd_cutoff *cutoff,
	const struct pr_string_list *classes, struct pr_ring *events)
{
	s->cutoff = cutoff;
	s->classes = cutoff ? prd_cutoff_classes(cutoff) : NULL;
	s->configured = classes;
	s->events = events;
	s->state.apply = apply;
	s->state.arg = s;
}
