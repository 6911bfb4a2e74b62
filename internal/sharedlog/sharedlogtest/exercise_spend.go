package sharedlogtest

import (
	"maps"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// spending writes events of spend, and knows what they add up to.
type spending struct {
	*exercise
	log   sharedlog.Log
	today int64
	last  int64 // the place and the number of the last event
	want  map[string]state.Spend
}

const spendDay = int64(24 * time.Hour)

// change is an amount in a day, and in a month around today.
func (s *spending) change(from, to int64, amount money.Amount) state.Spend {
	month := state.SpendPeriod{Begin: s.today - 10*spendDay, End: s.today + 15*spendDay, Spent: amount}
	return state.Spend{Day: state.SpendPeriod{Begin: from, End: to, Spent: amount}, Month: month}
}

// spend writes changes of an account in one batch.
func (s *spending) spend(account string, changes ...state.Spend) {
	var events []*sharedlog.Event
	for i, change := range changes {
		events = append(events, &sharedlog.Event{
			Process: 1, N: s.last + int64(i) + 1, Kind: sharedlog.Spend, Model: account, Text: state.SpendText(change),
		})
		is := s.want[account]
		is.Add(change)
		s.want[account] = is
	}
	s.write(s.log, s.last, events...)
	s.last += int64(len(events))
}

// fold deletes all events but the last.
func (s *spending) fold(sweep bool) {
	passed := s.image(s.log).Events
	for _, b := range []*sharedlog.Batch{{Passed: passed, Drops: [][2]int64{{1, s.last}}, Sweep: sweep}, {Sweep: sweep}} {
		b.Events = []*sharedlog.Event{use(1, s.last+1)}
		s.commit(s.begin(s.log, s.last), b)
		s.last++
	}
}

func (s *spending) check(when string) {
	s.t.Helper()
	if img := s.image(s.log); !maps.Equal(img.Spend, s.want) {
		s.t.Errorf("%s: %+v, want %+v", when, img.Spend, s.want)
	}
}

// spent: the events add up by account, for whoever comes later too, and no event counts twice. No
// reset forgets them, nor that the events are gone; what is long over is swept.
func (e *exercise) spent() {
	a, _ := e.open(1)
	today := time.Now().Truncate(24 * time.Hour).UnixNano()
	s := &spending{exercise: e, log: a, today: today, want: make(map[string]state.Spend)}
	s.check("at the beginning")
	of := s.change
	s.spend("m", of(today, today+spendDay, 5), of(today, today+spendDay, 7))
	s.spend("\x00odd", of(today, today+spendDay, 0))
	s.check("after the events")
	s.spend("m", of(today, today+spendDay, -4), of(today+9, today+spendDay+9, 1), of(today-5, today+spendDay-5, 2))
	s.check("of days that overlap")
	s.spend("m", of(today-spendDay, today-5, 100))
	s.check("of a day that is over")
	s.spend("\x00odd", of(today+spendDay, today+2*spendDay, 9), of(today+spendDay, today+2*spendDay, -20), of(today+spendDay+1, today+2*spendDay, 3))
	s.check("of a later day, to below zero")
	s.spend("much", of(today, today+spendDay, money.Max-5), of(today, today+spendDay, 4))
	s.check("of much")
	s.spend("much", of(today, today+spendDay, 90), of(today, today+spendDay, -90))
	s.check("of too much")
	odd := of(today, today+spendDay, 3)
	odd.Day.Begin, odd.Day.End = math.MinInt64, math.MinInt64+9
	s.spend("least", odd, state.Spend{})
	s.check("of odd times")

	e.write(a, s.last,
		&sharedlog.Event{Process: 1, N: s.last + 1, Kind: sharedlog.Reset, Model: "m"},
		&sharedlog.Event{Process: 1, N: s.last + 2, Kind: sharedlog.Reset},
	)
	s.last += 2
	s.check("after resets")
	s.fold(false)
	s.check("after the events have gone")
	s.spend("m", of(today, today+spendDay, 11))
	s.check("and one came")
	if _, img := e.open(2); !maps.Equal(img.Spend, s.want) {
		e.t.Errorf("another is told %+v", img.Spend)
	}
	old := of(today-40*spendDay, today-39*spendDay, 1)
	old.Month = state.SpendPeriod{Begin: today - 60*spendDay, End: today - 30*spendDay, Spent: 1}
	s.spend("old", old)
	s.check("of long ago")
	s.fold(true)
	delete(s.want, "old")
	s.check("after a sweep")
}
