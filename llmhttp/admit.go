package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// admit waits for room and charges the estimate. Its errors are those of RoundTrip.
func (t *Transport) admit(f *flight) error {
	if f.ctx.Err() != nil {
		_, _, err := t.wait(f, 0, 0) // which refuses it, so that Config.Events learns of it
		return err
	}
	prompt, output := t.estimate(f)
	f.estimated = ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
	d := f.reserve(prompt, output)
	if d.Never && t.Estimate == nil {
		if len(f.charges) > 0 {
			d.Stats = t.Limiter.Stats(f.name) // another may have denied
		}
		prompt, output = cutToQuota(&d.Stats, prompt, output)
		d = f.reserve(prompt, output)
	}
	began := f.began
	if d.Allowed && len(f.charges) == 0 {
		f.counted = d.Stats
		f.counted.RPM++
		f.counted.RPD++
		f.counted.ITPM += prompt
		f.counted.OTPM += output
		f.counted.TPM += prompt + output
		f.counted.TPD += prompt + output
	} else {
		if !d.Allowed {
			if began.IsZero() {
				began = time.Now()
			}
			var err error
			if prompt, output, err = t.wait(f, prompt, output); err != nil {
				return err
			}
		}
		f.counted = t.Limiter.Stats(f.name)
	}
	var wait time.Duration
	if !began.IsZero() {
		wait = time.Since(began)
	}
	f.waited += wait
	f.charged = ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
	t.report(f, Event{Kind: EventAdmitted, Wait: wait})
	return nil
}

// wait is Acquire within MaxWait. It returns the estimate that was charged.
func (t *Transport) wait(f *flight, prompt, output int) (int, int, error) {
	bounded, cancel, byMaxWait := t.patience(&f.ctx)
	defer cancel()
	all := f.requests(prompt, output)
	f.ctx.Tentative = t.Estimate == nil
	for {
		err := f.acquire(bounded, all)
		if err == nil {
			return prompt, output, nil
		}
		if f.ctx.Tentative && errors.Is(err, ratelimit.ErrNeverFits) {
			// A quota may have shrunk since the estimate was cut to it.
			stats := t.Limiter.Stats(f.name)
			prompt, output = cutToQuota(&stats, prompt, output)
			before := all
			all = f.requests(prompt, output)
			f.ctx.Tentative = !slices.Equal(all, before) // else the same refusal again, for good
			continue
		}
		var limit *ratelimit.LimitError
		late := errors.Is(err, context.DeadlineExceeded)
		switch {
		case errors.As(err, &limit):
			if late && byMaxWait {
				limit.Err = ratelimit.ErrMaxWait
			}
			return 0, 0, limit
		case late && byMaxWait && f.ctx.Err() == nil:
			// MaxWait passed while the call was queued. Room may have come in the same moment.
			d := f.reserve(prompt, output)
			if d.Allowed {
				return prompt, output, nil
			}
			return 0, 0, &ratelimit.LimitError{Model: d.Model, Decision: d, Err: ratelimit.ErrMaxWait}
		}
		return 0, 0, fmt.Errorf("llmhttp: wait for quota: %w", err)
	}
}
