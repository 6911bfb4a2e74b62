package former

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Content is all that a store of before holds. Its maps are as they were kept beside the events;
// Add and Tell bring them up to date. Make one with New.
type Content struct {
	Now    account.Now // the moment of the image
	Folded int64       // the days and the spend are those after this event

	// Mono is what the machine's clock shows now that the times Mono of events are of; 0 where they
	// are of another start of the machine, or of several machines.
	Mono int64

	Span   int64 // for how long a charge of the minute counts at most, in nanoseconds
	UsedAt int64 // until a span after it, in UnixNano, all minutes count as used; 0 for never

	Quotas    map[string]state.Quota
	Said      map[string]state.Said // who said them
	Pools     map[string][]string
	Classes   string // their text; "" for none
	Cooldowns map[string]state.Cooldown
	Days      map[string]state.DayUsage
	Found     map[string]state.Found
	Spend     map[string]state.Spend
	Usage     map[string]*state.Usage // of a store that one limiter had for itself

	Processes map[int64]Process // that may live

	minute minute
}

// Process is what a process said last of itself.
type Process struct {
	Silent int64 // since when it said nothing, in nanoseconds
	Lease  int64 // how long it counts as alive after it has said so
}

// New returns a Content without anything in it.
func New(now account.Now) *Content {
	return &Content{
		Now: now, Span: account.Minute,
		Quotas: make(map[string]state.Quota), Said: make(map[string]state.Said), Pools: make(map[string][]string),
		Cooldowns: make(map[string]state.Cooldown), Days: make(map[string]state.DayUsage),
		Found: make(map[string]state.Found), Spend: make(map[string]state.Spend),
		Processes: make(map[int64]Process),
	}
}

// clocksAgree is how far apart the wall clock and the machine's may date an event for the former to
// count.
const clocksAgree = int64(5 * time.Millisecond)

// Ago returns how long ago something was that is dated by the wall clock, and by the machine's:
// maxAge at most.
func (c *Content) Ago(wall, mono int64) int64 {
	ago := c.Now.Wall - max(wall, 0)
	if c.Mono > 0 && mono > 0 {
		if by := c.Mono - mono; ago-by > clocksAgree || by-ago > clocksAgree {
			ago = by
		}
	}
	return min(max(ago, 0), maxAge)
}

// Add does what an event says of charges, days and spend. It keeps nothing of the event.
func (c *Content) Add(e *Event) error {
	if err := e.Check(); err != nil {
		return err
	}
	c.minute.add(e, c.Now.Instant-c.Ago(e.Wall, e.Mono)-min(e.Age, clock.LongestDay), c.Now.Instant-c.Span)
	switch {
	case e.Seq <= c.Folded: // it is there only because it is still in force
	case e.Kind == Reset && e.Model == "":
		clear(c.Days)
	case e.Kind == Reset:
		delete(c.Days, e.Model)
	case e.Kind == Spend:
		change, err := state.ParseSpendChange(e.Text)
		if err != nil {
			return e.damaged(err)
		}
		is := c.Spend[e.Model]
		is.Add(change)
		c.Spend[e.Model] = is
	case e.HasDay:
		c.Days[e.Model] = state.DayUsage{Start: e.Day.Start, Count: max(e.Day.Count, 0), Tokens: max(e.Day.Tokens, 0)}
	}
	return nil
}

// Tell does what an event says of quotas, pools, classes and what was found, where a store does not
// bring these up to date with each event.
func (c *Content) Tell(e *Event) (err error) {
	if e.Seq <= c.Folded {
		return nil
	}
	switch e.Kind {
	case Quota:
		c.Said[e.Model], err = after(c.Said[e.Model], e.Text)
	case Found:
		c.Found[e.Model], err = state.ParseFound(e.Text)
	case Pool:
		var models []string
		var gone bool
		if models, gone, err = state.ParsePool(e.Text); gone {
			delete(c.Pools, e.Model)
		} else {
			c.Pools[e.Model] = models
		}
	case Classes:
		if e.Model != "" {
			break // how far a line was: nobody waits in it any more
		}
		if c.Classes = e.Text; e.Text != "" {
			_, err = state.ParseClasses(e.Text)
		}
	}
	if err != nil {
		return e.damaged(err)
	}
	return nil
}

func (e *Event) damaged(err error) error {
	return fmt.Errorf("event %d of %q: %w", e.Seq, errtext.Clip(e.Model), err)
}
