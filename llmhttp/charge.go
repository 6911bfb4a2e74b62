package llmhttp

import (
	"context"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// chargeKey is the key of the requests in a context made by WithCharge.
type chargeKey struct{}

// WithCharge returns a context whose calls are charged requests beside their own model: the quota
// of a team, a customer, or a budget. A call takes room in all of them or in none, and waits until
// all have it; a refusal names the one that denied. The requests add to those that the context has
// already.
//
// A request with zero tokens takes the call's estimate, and is settled with its usage. Another
// one keeps the tokens that it names, whatever the answer. Both are charged for each try, also for
// those of an SDK and after a redirect, and given back if the call was not sent. Calls that the
// Transport does not count charge nothing.
func WithCharge(ctx context.Context, requests ...ratelimit.Request) context.Context {
	if len(requests) == 0 {
		return ctx
	}
	return context.WithValue(ctx, chargeKey{}, slices.Concat(chargesOf(ctx), requests))
}

// chargesOf returns the requests that WithCharge put into a context.
func chargesOf(ctx context.Context) []ratelimit.Request {
	requests, _ := ctx.Value(chargeKey{}).([]ratelimit.Request)
	return requests
}

// followsUse reports whether a request takes the usage of the call.
func followsUse(req *ratelimit.Request) bool {
	return req.PromptTokens == 0 && req.OutputTokens == 0
}

// requests returns all that a try is charged for an estimate, its model first. Estimates are cut
// to the quotas, unless the program made them.
func (f *flight) requests(name string, prompt, output int) []ratelimit.Request {
	t := f.transport
	all := make([]ratelimit.Request, 1, 1+len(f.charges))
	all[0] = f.request(name, prompt, output)
	for _, req := range f.charges {
		if followsUse(&req) {
			req.PromptTokens, req.OutputTokens, req.BilledOutput = prompt, output, f.billedOutput
			if t.Estimate == nil {
				req.PromptTokens, req.OutputTokens = cutToQuotas(t.limits(req.Model), prompt, output)
			}
		}
		all = append(all, req)
	}
	return all
}

// requestsOf returns the requests of each offer.
func (f *flight) requestsOf(offers []offer) [][]ratelimit.Request {
	all := make([][]ratelimit.Request, len(offers))
	for i := range offers {
		all[i] = f.requests(offers[i].name, offers[i].prompt, offers[i].output)
	}
	return all
}

// request returns what a try is charged for an estimate, of its own model.
func (f *flight) request(name string, prompt, output int) ratelimit.Request {
	return ratelimit.Request{Model: name, PromptTokens: prompt, OutputTokens: output, BilledOutput: f.billedOutput}
}

// reserve charges an estimate if there is room. A denial is not reported to Config.Events: the
// caller asks for less, or waits.
func (f *flight) reserve(name string, prompt, output int) ratelimit.Decision {
	rl := f.transport.Limiter
	f.ctx.Tentative = true
	if len(f.charges) == 0 {
		one, d := rl.ReserveContext(&f.ctx, f.request(name, prompt, output))
		if len(one) > 0 {
			f.reservation = one[0]
		}
		return d
	}
	all, d := rl.ReserveContext(&f.ctx, f.requests(name, prompt, output)...)
	f.take(all)
	return d
}

// acquire waits until it has charged all requests of one of the offers, which it returns.
func (f *flight) acquire(ctx context.Context, offers []offer, all [][]ratelimit.Request) (got offer, err error) {
	rl, at := f.transport.Limiter, 0
	switch {
	case len(offers) > 1 && len(f.charges) == 0:
		return f.acquireAny(ctx, offers, all)
	case len(offers) > 1: // with charges, it waits for the one that is to have room first
		var d ratelimit.Decision
		if at, d = f.reserveOne(offers); d.Allowed {
			return offers[at], nil
		}
	}
	got = offers[at]
	if own := &all[at][0]; len(all[at]) == 1 && own.BilledOutput == 0 {
		f.reservation, err = rl.Acquire(ctx, own.Model, own.PromptTokens, own.OutputTokens)
		return got, err
	}
	reservations, err := rl.AcquireAll(ctx, all[at]...)
	f.take(reservations)
	return got, err
}

// acquireAny waits until it has charged the one request of one of the offers, which it returns.
func (f *flight) acquireAny(ctx context.Context, offers []offer, all [][]ratelimit.Request) (got offer, err error) {
	r, err := f.transport.Limiter.AcquireAny(ctx, ratelimit.AnyOptions{}, slices.Concat(all...)...)
	if err != nil {
		return offer{}, err
	}
	f.reservation = r
	at := slices.IndexFunc(offers, func(o offer) bool { return o.name == r.Model() })
	return offers[max(at, 0)], nil
}

// take keeps reservations that were made together.
func (f *flight) take(all ratelimit.Reservations) {
	if f.together = all; len(all) > 0 {
		f.reservation = all[0]
	}
}

// beside returns the reservations of f.charges.
func (f *flight) beside() ratelimit.Reservations {
	if len(f.together) == 0 {
		return nil
	}
	return f.together[1:]
}

// arrived dates all that the try was charged.
func (f *flight) arrived(at time.Time) {
	f.reservation.Arrived(at)
	for _, r := range f.beside() {
		r.Arrived(at)
	}
}

// commit settles all that the try was charged. bill is what is billed of the usage.
func (f *flight) commit(used ratelimit.Usage, bill money.Usage) {
	if f.reservation == nil { // nobody asked for it, so it had no place: see socket.adopt
		f.transport.Limiter.RecordSpend(f.name, used.PromptTokens, used.OutputTokens, bill)
		return
	}
	f.reservation.CommitUsage(used.PromptTokens, used.OutputTokens, bill)
	for i, r := range f.beside() {
		if req := &f.charges[i]; followsUse(req) {
			r.CommitUsage(used.PromptTokens, used.OutputTokens, bill)
		} else {
			r.Commit(req.PromptTokens, req.OutputTokens)
		}
	}
}

// cancel gives back all that the try was charged.
func (f *flight) cancel() {
	if f.together == nil {
		f.reservation.Cancel()
		return
	}
	f.together.Cancel()
}
