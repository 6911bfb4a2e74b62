package redisstore

import (
	"context"
	"strconv"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// mostEvents is how many events a script writes: more would keep the server busy for too long.
const mostEvents = 256

// itemSize is how many arguments of the script append are one item.
const itemSize = 6

// items are what the script append is to do, as its arguments.
type items struct {
	args   []any
	values []string // those of the events, without their days
	days   []string
}

// add adds an item. effect is a letter of the script and its argument.
func (t *items) add(value, model, day string, added sharedlog.DayAdded, effect string) {
	t.args = append(t.args, value, model, day, added.Requests, added.Tokens, effect)
}

// effect adds an item that is no event.
func (t *items) effect(letter, model, arg string) {
	t.add("", model, "", sharedlog.DayAdded{}, letter+arg)
}

// event adds an event. names are the models whose cooldowns go with a Reset, beside its own.
func (t *items) event(e *sharedlog.Event, added sharedlog.DayAdded, batch int64, names []string) {
	value, day := string(appendEntry(nil, e, batch)), ""
	if e.HasDay {
		day = dayText(e.Day)
	}
	t.values, t.days = append(t.values, value), append(t.days, day)
	model, effect := field(e.Model), ""
	switch e.Kind {
	case sharedlog.Reset:
		if effect = "r"; e.Model == "" {
			effect = "R"
		}
	case sharedlog.Cooldown:
		effect = "c" + cooldownText(e)
	case sharedlog.Answers:
		effect = "a" + e.Text
	}
	t.add(value, model, day, added, effect)
	switch e.Kind {
	case sharedlog.Reset:
		for _, name := range names {
			t.effect("x", field(name), "")
		}
	case sharedlog.Quota:
		t.quota(e)
	case sharedlog.Gone:
		t.effect("g", strconv.FormatInt(e.Ref, 10), "")
	}
}

// quotaOrigins are the letters of the origins in the fields of quotas.
var quotaOrigins = map[state.Origin]string{state.Program: "p", state.Account: "a"}

// quota adds what an event says of a quota: each origin has a field of its own, so that nobody has
// to know what the others said.
func (t *items) quota(e *sharedlog.Event) {
	saying, err := sharedlog.ParseSaying(e.Text)
	letter, known := quotaOrigins[saying.Origin]
	switch {
	case err != nil || !known: // which no limiter writes, and all readers pass over
	case saying.Gone:
		t.effect("Q", letter+e.Model, "")
	default:
		t.effect("q", letter+e.Model, sharedlog.QuotaText(saying.Is))
	}
}

// itemsOf returns what a part of a batch, from one event up to another, is to do.
func (l *Log) itemsOf(b *sharedlog.Batch, from, to int) (*items, error) {
	t := &items{args: make([]any, 0, itemSize*(to-from))}
	for i := from; i < to; i++ {
		e, added := b.Events[i], sharedlog.DayAdded{}
		if i < len(b.Added) {
			added = b.Added[i]
		}
		var names []string
		if e.Kind == sharedlog.Reset && e.Model != "" && b.NameOf != nil {
			var err error
			if names, err = l.cooledAs(e.Model, b.NameOf); err != nil {
				return nil, err
			}
		}
		t.event(e, added, b.Wall, names)
	}
	if from == 0 {
		for _, process := range b.Vouch {
			t.effect("v", strconv.FormatInt(process, 10), strconv.FormatInt(l.options.LeaseTTL.Milliseconds(), 10))
		}
	}
	return t, nil
}

// cooledAs returns the models in a cooldown that are counted under a name.
func (l *Log) cooledAs(name string, nameOf func(string) string) (models []string, err error) {
	err = l.scan(context.Background(), keyCooldowns, func(key, _ string) {
		if model, ok := modelOf(key); ok && model != name && nameOf(model) == name {
			models = append(models, model)
		}
	})
	return models, err
}
