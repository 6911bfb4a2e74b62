package sharedlogtest

import (
	"maps"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// spent: the events add up by account, for whoever comes later too, and no event counts twice. No
// reset forgets them, nor that the events are gone; what is long over is swept.
func (e *exercise) spent() {
	a, _ := e.open(1)
	const day = int64(24 * time.Hour)
	today := time.Now().Truncate(24 * time.Hour).UnixNano()
	change := func(from, to int64, amount money.Amount) state.Spend {
		month := state.SpendPeriod{Begin: today - 10*day, End: today + 15*day, Spent: amount}
		return state.Spend{Day: state.SpendPeriod{Begin: from, End: to, Spent: amount}, Month: month}
	}
	n := int64(0)
	event := func(account string, s state.Spend) *sharedlog.Event {
		n++
		return &sharedlog.Event{Process: 1, N: n, Kind: sharedlog.Spend, Model: account, Text: state.SpendText(s)}
	}
	want := make(map[string]state.Spend)
	wants := func(when string) {
		e.t.Helper()
		if img := e.image(a); !maps.Equal(img.Spend, want) {
			e.t.Errorf("%s: %+v, want %+v", when, img.Spend, want)
		}
	}
	wants("at the beginning")
	last := int64(0)
	write := func(events ...*sharedlog.Event) {
		e.write(a, last, events...)
		last += int64(len(events))
		for _, event := range events {
			if s, err := state.ParseSpendChange(event.Text); err == nil {
				is := want[event.Model]
				is.Add(s)
				want[event.Model] = is
			}
		}
	}
	write(event("m", change(today, today+day, 5)), event("\x00odd", change(today, today+day, 0)), event("m", change(today, today+day, 7)))
	wants("after the events")
	write(event("m", change(today, today+day, -4)), event("m", change(today+9, today+day+9, 1)), event("m", change(today-5, today+day-5, 2)))
	wants("of days that overlap")
	write(event("m", change(today-day, today-5, 100)))
	wants("of a day that is over")
	write(event("\x00odd", change(today+day, today+2*day, 9)), event("\x00odd", change(today+day, today+2*day, -20)))
	wants("of a later day, to below zero")
	write(event("much", change(today, today+day, money.Max-5)), event("much", change(today, today+day, 4)))
	wants("of much")
	write(event("much", change(today, today+day, 90)), event("much", change(today, today+day, -90)))
	wants("of too much")
	odd := change(today, today+day, 3)
	odd.Day.Begin, odd.Day.End = math.MinInt64, math.MinInt64+9
	write(event("least", odd), event("least", state.Spend{}))
	wants("of odd times")

	reset := []*sharedlog.Event{{Process: 1, N: n + 1, Kind: sharedlog.Reset, Model: "m"}, {Process: 1, N: n + 2, Kind: sharedlog.Reset}}
	n += 2
	write(reset...)
	wants("after resets")
	passed := e.image(a).Events
	e.commit(e.begin(a, last), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, n+1)}, Passed: passed, Drops: [][2]int64{{1, last}}})
	n, last = n+1, last+1
	wants("after the events have gone")
	write(event("m", change(today, today+day, 11)))
	wants("and one came")
	if _, img := e.open(2); !maps.Equal(img.Spend, want) {
		e.t.Errorf("another is told %+v", img.Spend)
	}

	old := change(today-40*day, today-39*day, 1)
	old.Month = state.SpendPeriod{Begin: today - 60*day, End: today - 30*day, Spent: 1}
	write(event("old", old))
	wants("of long ago")
	passed = e.image(a).Events
	e.commit(e.begin(a, last), &sharedlog.Batch{
		Events: []*sharedlog.Event{use(1, n+1)}, Passed: passed, Drops: [][2]int64{{1, last}}, Sweep: true,
	})
	n, last = n+1, last+1
	e.commit(e.begin(a, last), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, n+1)}, Sweep: true})
	delete(want, "old")
	wants("after a sweep")
}
