package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// admit waits for room and charges the estimate. Its errors are those of RoundTrip.
func (t *Transport) admit(f *flight) error {
	ctx := f.call.Request.Context()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("llmhttp: wait for quota: %w", err)
	}
	prompt, output := t.estimate(f)
	reservation, d := t.Limiter.Reserve(f.name, prompt, output)
	if d.Never && t.Estimate == nil {
		prompt, output = cutToQuota(&d.Stats, prompt, output)
		reservation, d = t.Limiter.Reserve(f.name, prompt, output)
	}
	f.counted = d.Stats
	f.counted.RPM++
	f.counted.RPD++
	f.counted.ITPM += prompt
	f.counted.OTPM += output
	f.counted.TPM += prompt + output
	f.counted.TPD += prompt + output
	began := f.began
	if !d.Allowed {
		if began.IsZero() {
			began = time.Now()
		}
		var err error
		for {
			if reservation, err = t.wait(ctx, f.name, prompt, output); err == nil {
				break
			}
			// The quota may have shrunk since the estimate was cut to it. An estimate that never
			// fits (ratelimit.ErrNeverFits) is then cut again.
			stats := t.Limiter.Stats(f.name)
			p, o := cutToQuota(&stats, prompt, output)
			if t.Estimate != nil || !errors.Is(err, ratelimit.ErrNeverFits) || p == prompt && o == output {
				return err
			}
			prompt, output = p, o
		}
		f.counted = t.Limiter.Stats(f.name)
	}
	var wait time.Duration
	if !began.IsZero() {
		wait = time.Since(began)
	}
	f.reservation = reservation
	f.charged = ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
	t.report(f, Event{Kind: EventAdmitted, Wait: wait})
	return nil
}

// wait is Acquire within MaxWait.
func (t *Transport) wait(
	ctx context.Context, model string, prompt, output int,
) (*ratelimit.Reservation, error) {
	bounded := ctx
	if t.MaxWait > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, t.MaxWait)
		defer cancel()
	}
	reservation, err := t.Limiter.Acquire(bounded, model, prompt, output)
	if err == nil || errors.As(err, new(*ratelimit.LimitError)) {
		return reservation, err
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// MaxWait passed while the call was queued.
		d := t.Limiter.DecideRequest(ratelimit.Request{
			Model: model, PromptTokens: prompt, OutputTokens: output,
		})
		return nil, &ratelimit.LimitError{Model: model, Decision: d}
	}
	return nil, fmt.Errorf("llmhttp: wait for quota: %w", err)
}
