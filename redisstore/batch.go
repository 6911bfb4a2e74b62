package redisstore

import (
	"context"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// mostEvents is how many events a script writes: more would keep the server busy for too long.
const mostEvents = 256

// write is a part of a batch as the script append gets it.
type write struct {
	events  []sharedlog.Event
	value   string // the entry with the days as they were planned; "" without events
	added   string // what the events add to them; "" where nobody may have written meanwhile
	effects []any  // triples of a letter, a model or process, and an argument
	days    []any  // those after the events: pairs of a model and its day
}

// writeOf returns the write of the events of a batch from one up to another.
func (l *Log) writeOf(b *sharedlog.Batch, from, to int) (w *write, err error) {
	w = &write{events: make([]sharedlog.Event, 0, to-from)}
	c := &l.encoder
	c.begin(l.options.Process, b.Wall)
	for i := from; i < to; i++ {
		e, added := b.Events[i], sharedlog.DayAdded{}
		if i < len(b.Added) {
			added = b.Added[i]
		}
		c.add(e, added)
		w.add(e, b.Wall)
		if e.Kind == sharedlog.Spend {
			w.addSpend(e, i-from)
		}
		if err := w.addEffects(l, e, b.NameOf); err != nil {
			return nil, err
		}
	}
	if from == 0 {
		for _, process := range b.Vouch {
			w.effect("v", itoa(process), l.options.LeaseTTL.Milliseconds())
		}
	}
	if len(w.events) == 0 {
		return w, nil
	}
	w.value = c.value(len(w.events))
	for i, day := range c.days {
		if day != "" {
			w.days = append(w.days, field(c.models[i]), day)
		}
	}
	if b.Appends {
		w.added = string(c.added)
	}
	return w, nil
}

// add adds an event as the store will have it, but for its place. It is made before the write: once
// that is heard of, another goroutine may date the event of the batch. A time is relative to the
// writing until then.
func (w *write) add(e *sharedlog.Event, batch int64) {
	w.events = append(w.events, *e)
	is := &w.events[len(w.events)-1]
	is.Count = is.Count.Clamp()
	if e.HasDay {
		is.Day = state.DayUsage{Start: e.Day.Start, Count: max(e.Day.Count, 0), Tokens: max(e.Day.Tokens, 0)}
	}
	if is.At = 0; e.Kind != sharedlog.Cooldown {
		is.Wall = -beforeWriting(e, batch)
	}
}

// stored returns the events as the store has them where they were written as they were planned. It
// is what entry.events would read.
func (w *write) stored(place, stamp int64) []*sharedlog.Event {
	all := make([]*sharedlog.Event, len(w.events))
	for i := range w.events {
		e := &w.events[i]
		if e.Seq = place + int64(i); e.Kind != sharedlog.Cooldown {
			e.Wall += nanos(stamp)
		}
		all[i] = e
	}
	return all
}

// request returns the request to append the write behind a position. The common case is for a
// process that knows the facts of the log, and nothing else to do.
func (l *Log) request(w *write, at position, f *facts, mode string, lease int64) *request {
	if len(w.effects) > 0 {
		f = nil
	}
	first := at.seq + 1
	q := &request{script: appendScript, log: at.log, facts: f, first: first}
	head, next, shift := "!"+at.log+" 0 0 0 ", "", int64(0)
	if f != nil {
		head, next, shift = f.head, f.head, f.shift
	}
	head += itoa(at.seq) + " " + itoa(at.stamp)
	next += itoa(at.seq+int64(len(w.events))) + " "
	more := mode + " " + itoa(lease) + " " + itoa(int64(len(w.effects))) + " " + w.added
	q.args = make([]any, 0, 10+len(w.effects)+len(w.days))
	q.args = append(q.args, head, next, shift, at.stamp, 0,
		itoa(first)+"-", l.field, itoa(l.number)+" "+itoa(first)+" ", w.value, more)
	q.args = append(q.args, w.effects...)
	q.args = append(q.args, w.days...)
	return q
}

func (w *write) effect(letter, model string, arg any) {
	w.effects = append(w.effects, letter, model, arg)
}

// addEffects adds what an event changes beside the log and the days.
func (w *write) addEffects(l *Log, e *sharedlog.Event, nameOf func(string) string) error {
	switch e.Kind {
	case sharedlog.Reset:
		if e.Model == "" {
			w.effect("R", "", "")
			return nil
		}
		w.effect("r", field(e.Model), "")
		if nameOf == nil {
			return nil
		}
		names, err := l.cooledAs(e.Model, nameOf)
		for _, name := range names {
			w.effect("x", field(name), "")
		}
		return err
	case sharedlog.Cooldown:
		w.effect("c", field(e.Model), cooldownText(e))
	case sharedlog.Answers:
		w.effect("a", field(e.Model), e.Text)
	case sharedlog.Found:
		w.effect("f", field(e.Model), e.Text)
	case sharedlog.Classes:
		if e.Text == "" {
			w.effect("Q", classesLetter+e.Model, "")
		} else {
			w.effect("q", classesLetter+e.Model, e.Text)
		}
	case sharedlog.Quota:
		w.addQuota(e)
	case sharedlog.Gone:
		w.effect("g", itoa(e.Ref), "")
	}
	return nil
}

// quotaOrigins are the letters of the origins in the fields of quotas.
var quotaOrigins = map[state.Origin]string{state.Program: "p", state.Account: "a"}

// classesLetter is the letter of the fields of the quotas that say what the classes are, and how
// far lines.
const classesLetter = "c"

// addQuota adds what an event says of a quota: each origin has a field of its own, so that nobody
// has to know what the others said.
func (w *write) addQuota(e *sharedlog.Event) {
	saying, err := sharedlog.ParseSaying(e.Text)
	letter, known := quotaOrigins[saying.Origin]
	switch {
	case err != nil || !known: // which no limiter writes, and all readers pass over
	case saying.Gone:
		w.effect("Q", letter+e.Model, "")
	default:
		w.effect("q", letter+e.Model, sharedlog.QuotaText(saying.Is))
	}
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
