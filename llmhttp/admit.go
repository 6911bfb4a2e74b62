package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// offer is a name under which a call may be charged, and what it is charged there.
type offer struct {
	name           string // that the limiter is asked for
	prompt, output int

	// With a Route:
	backend   *backend
	estimated ratelimit.Usage // before it was cut to the quota
	// The share that the call would leave of the scarcest limit, of the model's own and of all; it
	// is negative where there is no room.
	own, share float64
}

// admit waits for room and charges the estimate. Its errors are those of RoundTrip.
func (t *Transport) admit(f *flight) error {
	if f.ctx.Err() != nil {
		_, err := t.wait(f, []offer{{name: f.name, backend: f.backend()}}) // so that Config.Events learns of it
		return err
	}
	if f.routed != nil {
		return t.admitAtOne(f)
	}
	asked, ok := t.admitNow(f)
	if ok {
		return nil
	}
	began := f.began
	if began.IsZero() {
		began = time.Now()
	}
	got, err := t.wait(f, []offer{asked})
	if err != nil {
		return err
	}
	f.counted = t.Limiter.Stats(f.name)
	f.admitted(began, got.prompt, got.output)
	return nil
}

// admitNow is admit if there is room at once. Without, it returns what the call is to wait for. A
// call that may go to several backends has to wait.
func (t *Transport) admitNow(f *flight) (asked offer, ok bool) {
	if f.routed != nil {
		return offer{}, false
	}
	prompt, output := t.estimate(f)
	f.estimated = ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
	d := f.reserve(f.name, prompt, output)
	if d.Never && t.Estimate == nil {
		prompt, output = cutToQuotas(t.limits(f.name), prompt, output)
		d = f.reserve(f.name, prompt, output)
	}
	switch {
	case !d.Allowed:
		return offer{name: f.name, prompt: prompt, output: output}, false
	case len(f.charges) == 0:
		f.counted = d.Stats
		f.counted.RPM++
		f.counted.RPD++
		f.counted.ITPM += prompt
		f.counted.OTPM += output
		f.counted.TPM += prompt + output
		f.counted.TPD += prompt + output
	default:
		f.counted = t.Limiter.Stats(f.name)
	}
	f.admitted(f.began, prompt, output)
	return offer{}, true
}

// admitted records what a call was charged, for which it waited since a time; zero for no wait.
func (f *flight) admitted(began time.Time, prompt, output int) {
	var wait time.Duration
	if !began.IsZero() {
		wait = time.Since(began)
	}
	f.waited += wait
	f.charged = ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
	f.transport.report(f, Event{Kind: EventAdmitted, Wait: wait})
}

// countAt makes the call one to a backend, nil without a Route, that is counted under a name.
func (f *flight) countAt(b *backend, name string) {
	t := f.transport
	f.name, f.model = name, t.models.get(name)
	if b != nil {
		f.routed.backend, f.routed.standing = b, t.models.get(b.standingOf(f.routed.bare))
	}
	if t.OnEvent != nil {
		f.countedAs = t.Limiter.CountedAs(name)
	}
}

// wait is Acquire within MaxWait for one of the offers, of which there is at least one. It returns
// the one that was charged.
func (t *Transport) wait(f *flight, offers []offer) (offer, error) {
	bounded, cancel, cause := f.patience()
	defer cancel()
	all := f.requestsOf(offers)
	f.ctx.Tentative = t.Estimate == nil
	for {
		got, err := f.acquire(bounded, offers, all)
		if err == nil {
			return got, nil
		}
		if f.ctx.Tentative && errors.Is(err, ratelimit.ErrNeverFits) {
			// A quota may have shrunk since the estimate was cut to it.
			for i := range offers {
				o := &offers[i]
				o.prompt, o.output = cutToQuotas(t.limits(o.name), o.prompt, o.output)
			}
			before := all
			all = f.requestsOf(offers)
			same := slices.EqualFunc(all, before, slices.Equal[[]ratelimit.Request])
			f.ctx.Tentative = !same // else the same refusal again, for good
			continue
		}
		var limit *ratelimit.LimitError
		late := errors.Is(err, context.DeadlineExceeded)
		switch {
		case errors.As(err, &limit):
			if late && cause != nil {
				limit.Err = cause
			}
			return offer{}, limit
		case late && cause != nil && f.ctx.Err() == nil:
			// The time passed while the call was queued. Room may have come in the same moment.
			at, d := f.reserveOne(offers)
			if d.Allowed {
				return offers[at], nil
			}
			return offer{}, &ratelimit.LimitError{Model: d.Model, Decision: d, Err: cause}
		}
		return offer{}, fmt.Errorf("llmhttp: wait for quota: %w", err)
	}
}
