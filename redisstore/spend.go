package redisstore

import (
	"context"
	"fmt"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// spent is what was spent of an account up to an event.
type spent struct {
	state.Spend
	upTo int64 // the place of the last event that is in it
}

// addSpend adds what an event, which is the i-th of a write, adds to what was spent. The script
// works out the sum, because only the store knows it where several processes write at once.
func (w *write) addSpend(e *sharedlog.Event, i int) {
	if change, err := state.ParseSpendChange(e.Text); err == nil {
		w.effect("s", field(e.Model), spendText(change)+" "+itoa(int64(i)))
	}
}

// spendText returns a spend as the store has it, or a change of it: the periods, whose bytes are in
// the order of their times, and the amounts in micro-dollars.
func spendText(s state.Spend) string {
	return ordered(s.Day.Begin) + ordered(s.Day.End) + ordered(s.Month.Begin) + ordered(s.Month.End) +
		itoa(int64(s.Day.Spent)) + " " + itoa(int64(s.Month.Spent))
}

// parseSpent reads a value of the hash.
func parseSpent(text string) (s spent, err error) {
	for _, at := range [...]*int64{&s.Day.Begin, &s.Day.End, &s.Month.Begin, &s.Month.End} {
		if *at, text, err = parseOrdered(text); err != nil {
			return s, err
		}
	}
	day, rest, _ := strings.Cut(text, " ")
	month, upTo, _ := strings.Cut(rest, " ")
	for _, n := range [...]struct {
		text string
		into *int64
	}{{day, (*int64)(&s.Day.Spent)}, {month, (*int64)(&s.Month.Spent)}, {upTo, &s.upTo}} {
		if *n.into, err = parseInt(n.text); err != nil {
			return s, err
		}
	}
	return s, s.Check(false)
}

func (c *content) readSpend(ctx context.Context) error {
	var bad error
	err := c.log.scan(ctx, keySpend, func(key, value string) {
		account, ok := modelOf(key)
		if !ok {
			return
		}
		s, err := parseSpent(value)
		if err != nil {
			bad = fmt.Errorf("redis: spend of %q: %w", account, err)
		}
		c.spend[account] = s
	})
	if err == nil {
		err = bad
	}
	return err
}

// foldSpend adds what an event adds, unless the hash has it already.
func (c *content) foldSpend(e *sharedlog.Event) {
	is := c.spend[e.Model]
	if change, err := state.ParseSpendChange(e.Text); err == nil && e.Seq > is.upTo {
		is.Add(change)
		is.upTo = e.Seq
		c.spend[e.Model] = is
	}
}

// spends returns what was spent, by account.
func (c *content) spends() map[string]state.Spend {
	all := make(map[string]state.Spend, len(c.spend))
	for account, s := range c.spend {
		all[account] = s.Spend
	}
	return all
}
