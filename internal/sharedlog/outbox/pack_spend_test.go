package outbox

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// What a packed outbox adds to the accounts is what the events did that were packed, but where it
// goes below zero on the way.
func TestPackKeepsTheSumOfSpend(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var all []added
		want := make(map[string]state.Spend)
		for range 1 + random.IntN(40) {
			day, month := random.Int64N(3)*100, random.Int64N(2)*1000
			amount := money.Amount(random.IntN(100))
			s := state.Spend{
				Day:   state.SpendPeriod{Begin: day, End: day + 100, Spent: amount},
				Month: state.SpendPeriod{Begin: month, End: month + 1000, Spent: amount},
			}
			account := fmt.Sprint("m", random.IntN(2))
			all = append(all, added{Event: &sharedlog.Event{Kind: sharedlog.Spend, Model: account, Text: state.SpendText(s)}})
		}
		o := put(all...)
		o.Tried(int64(random.IntN(5)))
		tried := int(o.tried)
		// Those that may be in the log come first, and the others by their periods: an earlier one
		// that comes after a later one counts for nothing, in the log as here.
		apply := func(events []*sharedlog.Event, to map[string]state.Spend) {
			for _, e := range events {
				s, err := state.ParseSpendChange(e.Text)
				if err != nil {
					t.Fatal(err)
				}
				is := to[e.Model]
				is.Add(s)
				to[e.Model] = is
			}
		}
		latest := make(map[string]state.Spend) // the periods that count in the end
		apply(o.Events(), latest)
		sums := make(map[string]state.Spend)
		for _, e := range o.Events() {
			s, _ := state.ParseSpendChange(e.Text)
			is, last := sums[e.Model], latest[e.Model]
			if s.Day.Begin == last.Day.Begin {
				is.Day.Spent += s.Day.Spent
			}
			if s.Month.Begin == last.Month.Begin {
				is.Month.Spent += s.Month.Spent
			}
			sums[e.Model] = is
		}
		for account, last := range latest {
			last.Day.Spent, last.Month.Spent = sums[account].Day.Spent, sums[account].Month.Spent
			want[account] = last
		}
		tallies := o.Pack(presentOf(nil))
		got := make(map[string]state.Spend)
		apply(o.Events(), got)
		for account := range want {
			if got[account] != want[account] {
				t.Fatalf("seed %d: %s is %+v, want %+v", seed, account, got[account], want[account])
			}
		}
		if most := tried + 2*3*2; len(o.Events()) > most || len(tallies) > 2*3*2 {
			t.Fatalf("seed %d: %d events are left, %d of them new", seed, len(o.Events()), len(tallies))
		}
	}
}
