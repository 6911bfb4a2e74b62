package instruments_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"dappco.re/go/core/go-ratelimit/money"
)

func usage(prompt, output int) ratelimit.Usage {
	return ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
}

func TestRead(t *testing.T) {
	waited := &ratelimit.Decision{Code: ratelimit.DecisionTPMLimit}
	type m = instruments.Measurements
	for name, test := range map[string]struct {
		event ratelimit.Event
		want  instruments.Measurements
	}{
		"admitted at once": {
			ratelimit.Event{Kind: ratelimit.EventAdmitted, Estimated: usage(100, 20)},
			m{Request: true, Code: "ok", Result: "admitted", Reserved: usage(100, 20)},
		},
		"admitted after a wait": {
			ratelimit.Event{Kind: ratelimit.EventAdmitted, Wait: 1500 * time.Millisecond, Decision: waited, Estimated: usage(1, 0)},
			m{Request: true, Code: "tpm_exceeded", Result: "admitted", Queued: true, InQueue: 1.5, Reserved: usage(1, 0)},
		},
		"refused before anything was decided": {
			ratelimit.Event{Kind: ratelimit.EventRefused, Err: context.Canceled},
			m{Request: true, Result: "canceled"},
		},
		"admitted after a wait for a pool": {
			ratelimit.Event{Kind: ratelimit.EventAdmitted, Class: "c", Pool: "p", Wait: time.Second, Decision: &ratelimit.Decision{Code: "queued", Pool: "p"}},
			m{Request: true, Code: "queued", Result: "admitted", Queued: true, InQueue: 1, Class: "c", Pool: "p"},
		},
		"settled with a cost": {
			ratelimit.Event{Kind: ratelimit.EventSettled, Class: "c", Cost: money.USD(2)}, m{Ended: true, Spent: 2, Class: "c"},
		},
		"settled without a cost": {
			ratelimit.Event{Kind: ratelimit.EventReleased, Class: "c", Cost: -1}, m{Ended: true},
		},
		"a wait for a pool that asks for nothing": {
			ratelimit.Event{Kind: ratelimit.EventRefused, Class: "c", Operation: "wait", Wait: time.Second, Decision: &ratelimit.Decision{Code: "queued", Pool: "p"}},
			m{Result: "refused", Queued: true, InQueue: 1, Class: "c"},
		},
		"passed": {
			ratelimit.Event{Kind: ratelimit.EventPassed, Wait: time.Second, Decision: waited, Estimated: usage(9, 9)},
			m{Result: "passed", Queued: true, InQueue: 1},
		},
		"settled below the estimate": {
			ratelimit.Event{Kind: ratelimit.EventSettled, Held: 2 * time.Second, Estimated: usage(100, 100), Settled: usage(100, 50)},
			m{Ended: true, Lease: 2, Settled: usage(100, 50), Returned: usage(0, 50), Compared: true, Ratio: 0.75},
		},
		"settled above the estimate": {
			ratelimit.Event{Kind: ratelimit.EventSettled, Estimated: usage(10, 10), Settled: usage(30, 5)},
			m{Ended: true, Settled: usage(30, 5), Returned: usage(0, 5), Compared: true, Ratio: 1.75},
		},
		"settled without an estimate": {
			ratelimit.Event{Kind: ratelimit.EventSettled, Settled: usage(30, 5)},
			m{Ended: true, Settled: usage(30, 5)},
		},
		"released": {
			ratelimit.Event{Kind: ratelimit.EventReleased, Held: time.Second, Estimated: usage(10, 10)},
			m{Ended: true, Lease: 1, Returned: usage(10, 10)},
		},
		"expired": {
			ratelimit.Event{Kind: ratelimit.EventExpired, Held: time.Hour, Estimated: usage(10, 10), Settled: usage(10, 10)},
			m{Ended: true, Lease: 3600, Settled: usage(10, 10)},
		},
		"recorded": {
			ratelimit.Event{Kind: ratelimit.EventRecorded, Settled: usage(-1, 7)},
			m{Settled: usage(0, 7)},
		},
		"refused by the provider": {
			ratelimit.Event{Kind: ratelimit.EventProviderRefused, Status: 429, Problem: "daily_quota"},
			m{Rejected: true, Status: 429, ErrorType: "daily_quota"},
		},
		"refused by the provider in an unknown way": {
			ratelimit.Event{Kind: ratelimit.EventProviderRefused, Status: 12345, Problem: "secret sk-123"},
			m{Rejected: true, ErrorType: "_OTHER"},
		},
		"saved": {
			ratelimit.Event{Kind: ratelimit.EventSaved, System: "redis", Operation: "step", Took: 5 * time.Millisecond, Err: errors.New("secret")},
			m{Written: true, Took: 0.005, System: "redis", Operation: "step"},
		},
	} {
		got := instruments.Measurements{Code: "left over"}
		if instruments.Read(&test.event, &got); got != test.want {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, test.want)
		}
	}
}

// Events that no counter or histogram has leave all of the Measurements zero.
func TestReadOthers(t *testing.T) {
	for _, kind := range []ratelimit.EventKind{
		ratelimit.EventQueued, ratelimit.EventCooldownBegan, ratelimit.EventCooldownEnded, ratelimit.EventQuotaChanged,
		ratelimit.EventUnknownModel, ratelimit.EventEvicted, ratelimit.EventStoreDown, ratelimit.EventStoreUp, "of a later version",
	} {
		got := instruments.Measurements{Code: "left over"}
		e := ratelimit.Event{Kind: kind, Estimated: usage(1, 1), Settled: usage(1, 1), Wait: 1, Held: 1, Took: 1, Status: 429}
		if instruments.Read(&e, &got); got != (instruments.Measurements{}) {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

func TestReadRefusals(t *testing.T) {
	denied := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
	never := ratelimit.Decision{Code: ratelimit.DecisionTPMLimit, Never: true}
	limitError := func(d ratelimit.Decision, err error) error {
		return fmt.Errorf("call: %w", &ratelimit.LimitError{Decision: d, Err: err})
	}
	for _, test := range []struct {
		err      error
		decision ratelimit.Decision
		want     string
	}{
		{nil, denied, "refused"},
		{nil, never, "never_fits"},
		{limitError(never, nil), never, "never_fits"},
		{limitError(denied, ratelimit.ErrQueueFull), denied, "queue_full"},
		{limitError(denied, nil), denied, "refused"}, // too late for the deadline
		{limitError(denied, ratelimit.ErrMaxWait), denied, "refused"},
		{context.DeadlineExceeded, denied, "deadline_exceeded"},
		{fmt.Errorf("acquire: %w", context.DeadlineExceeded), denied, "deadline_exceeded"},
		{fmt.Errorf("acquire: %w", context.Canceled), denied, "canceled"},
		{ratelimit.ErrClosed, never, "refused"},
		{ratelimit.ErrInvalidTokens, never, "refused"},
	} {
		e := ratelimit.Event{Kind: ratelimit.EventRefused, Err: test.err, Decision: &test.decision, Wait: time.Second}
		var got instruments.Measurements
		instruments.Read(&e, &got)
		want := instruments.Measurements{Request: true, Code: string(test.decision.Code), Result: test.want, Queued: true, InQueue: 1}
		if got != want {
			t.Errorf("%v: got\n%+v, want\n%+v", test.err, got, want)
		}
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	var m instruments.Measurements
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit}
	for _, e := range []ratelimit.Event{
		{Kind: ratelimit.EventAdmitted, Estimated: usage(100, 20)},
		{Kind: ratelimit.EventSettled, Estimated: usage(100, 20), Settled: usage(90, 10), Held: time.Second},
		{Kind: ratelimit.EventRefused, Decision: &d, Err: &ratelimit.LimitError{Decision: d}},
	} {
		if n := testing.AllocsPerRun(100, func() { instruments.Read(&e, &m) }); n != 0 {
			t.Errorf("%s: %v allocations", e.Kind, n)
		}
	}
}
