package lives

import (
	"fmt"
	"slices"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// ofCalls are the kinds of events that the oracle foresees.
var ofCalls = []ratelimit.EventKind{
	ratelimit.EventAdmitted, ratelimit.EventRefused, ratelimit.EventSettled, ratelimit.EventReleased, ratelimit.EventExpired,
	ratelimit.EventRecorded,
}

// expectation shows what the oracle foresees of an event.
func expectation(kind ratelimit.EventKind, model, requested string, estimated, settled ratelimit.Usage, cost money.Amount) string {
	if kind == ratelimit.EventRefused {
		return string(kind) // the tests of decisions look at the rest
	}
	return fmt.Sprintf("%s %s as %s, estimated %v, settled %v at %v", kind, requested, model, estimated, settled, cost)
}

// expect foresees an event of a call that got no reservation.
func (l *life) expect(kind ratelimit.EventKind, req ratelimit.Request, _ string) {
	l.expects = append(l.expects, expectation(kind, l.counted(req.Model), req.Model, ratelimit.Usage{}, ratelimit.Usage{}, 0))
}

func (l *life) expectRefused(_ ratelimit.Decision, reqs []ratelimit.Request) {
	l.expect(ratelimit.EventRefused, reqs[0], "")
}

// expectOf foresees an event of a reservation.
func (l *life) expectOf(kind ratelimit.EventKind, c *call, settled ratelimit.Usage, cost money.Amount) {
	if c.uncounted {
		return
	}
	estimated := ratelimit.Usage{PromptTokens: c.req.PromptTokens, OutputTokens: c.req.OutputTokens}
	if kind == ratelimit.EventExpired {
		settled, cost = estimated, c.most
	}
	l.expects = append(l.expects, expectation(kind, l.counted(c.req.Model), c.req.Model, estimated, settled, cost))
}

func (l *life) expectRecorded(req ratelimit.Request, cost money.Amount) {
	used := ratelimit.Usage{PromptTokens: req.PromptTokens, OutputTokens: req.OutputTokens}
	l.expects = append(l.expects, expectation(ratelimit.EventRecorded, l.counted(req.Model), req.Model, ratelimit.Usage{}, used, cost))
}

// compareEvents compares the events of a step: those of the limiters with each other, whatever
// their order, and those of calls with what the oracle foresees.
func (l *life) compareEvents() {
	var calls []string
	each(l, "events", func(h *house, i int) (told []string) {
		for _, e := range h.take() {
			if i == 0 && slices.Contains(ofCalls, e.Kind) {
				calls = append(calls, expectation(e.Kind, e.Model, e.Requested, e.Estimated, e.Settled, e.Cost))
			}
			if e.ID != 0 {
				e.ID = 1 // they count on for each limiter
			}
			if !l.hides(&e) {
				told = append(told, render(&e))
			}
		}
		slices.Sort(told)
		return told
	})
	slices.Sort(calls)
	slices.Sort(l.expects)
	if !slices.Equal(calls, l.expects) {
		for i := range max(len(calls), len(l.expects)) {
			if i >= len(calls) || i >= len(l.expects) || calls[i] != l.expects[i] {
				l.fail("events of calls:\n%q,\nthe oracle foresees\n%q", calls[min(i, len(calls)):], l.expects[min(i, len(l.expects)):])
			}
		}
	}
	l.expects = l.expects[:0]
}
