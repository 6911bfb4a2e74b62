package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// maxTries is how often one prompt is sent while the provider refuses it.
	maxTries = 5
	// maxFailures in a row end the run: the key is wrong, or no server answers.
	maxFailures = 10
)

// agents send the prompts of a batch, many at a time, inside one quota.
type agents struct {
	limiter *ratelimit.RateLimiter
	account string // the name of the quota
	client  *client
	done    *doneFile
	tally   *tally
	note    func(format string, args ...any) // tells the user

	unsafe   bool // -unsafe
	failures atomic.Int32
}

// run sends the prompts that have no answer yet with the given number of
// workers, and returns when all of them have ended. A prompt that fails does not
// end the run. The error says why prompts were left: ctx has ended, the batch
// cannot be read, or too many calls failed.
func (a *agents) run(ctx context.Context, workers int, prompts iter.Seq2[prompt, error]) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	queue := make(chan prompt)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for p := range queue {
				if err := a.handle(ctx, p); err != nil {
					giveUp(err)
				}
			}
		})
	}
	err := a.feed(ctx, queue, prompts)
	close(queue)
	wg.Wait()
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// feed hands the prompts to the workers.
func (a *agents) feed(ctx context.Context, queue chan<- prompt, prompts iter.Seq2[prompt, error]) error {
	for p, err := range prompts {
		if err != nil {
			return err
		}
		if a.done.has(p.id) {
			continue
		}
		select {
		case queue <- p:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// handle gets the answer to a prompt and notes how that went. Its error ends the
// run.
func (a *agents) handle(ctx context.Context, p prompt) error {
	err := a.answer(ctx, p)
	switch {
	case err == nil:
		a.failures.Store(0)
		a.tally.answer()
		return a.done.add(p.id)
	case ctx.Err() != nil:
		return nil // not the prompt's fault
	}
	a.tally.fail()
	a.note("%s failed: %v", p.id, err)
	if a.failures.Add(1) >= maxFailures {
		return fmt.Errorf("gave up after %d failures in a row", maxFailures)
	}
	return nil
}

// answer sends a prompt until it is answered. Each try asks for room anew: the
// provider may count those that it refuses.
func (a *agents) answer(ctx context.Context, p prompt) error {
	for try := 1; ; try++ {
		room, err := a.acquire(ctx, p)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			room.Cancel() // this call is never sent
			return err
		}
		used, err := a.send(ctx, p, room)
		if err == nil {
			a.tally.use(used)
			return nil
		}
		refused, ok := errors.AsType[*refusedError](err)
		if !ok {
			if ctx.Err() != nil {
				a.tally.cutOff()
			}
			return err
		}
		a.tally.refuse()
		if refused.final || try == maxTries {
			return err
		}
		a.note("%s: %v", p.id, err)
		if err := sleep(ctx, refused.after); err != nil {
			return err
		}
	}
}

// acquire waits until the prompt fits the quota and charges it, in one step. The
// reservation is nil with -unsafe, and does nothing then.
func (a *agents) acquire(ctx context.Context, p prompt) (*ratelimit.Reservation, error) {
	if a.unsafe {
		return nil, a.check(ctx, p)
	}
	// Acquire alone would do. Reserve tells whether there is a wait to show.
	room, d := a.limiter.Reserve(a.account, p.estimate, p.maxTokens)
	if d.Allowed {
		return room, nil
	}
	defer a.tally.startWait(d, p)()
	return a.limiter.Acquire(ctx, a.account, p.estimate, p.maxTokens)
}

// check is how not to do it: it waits until the prompt fits the quota, and charges
// nothing. Until the calls before it are recorded, every agent that checks passes.
func (a *agents) check(ctx context.Context, p prompt) error {
	tokens := p.estimate + p.maxTokens
	if d := a.limiter.Decide(a.account, tokens); !d.Allowed {
		defer a.tally.startWait(d, p)()
	}
	return a.limiter.WaitForCapacity(ctx, a.account, tokens)
}

// send sends a prompt that there is room for.
func (a *agents) send(ctx context.Context, p prompt, room *ratelimit.Reservation) (usage, error) {
	defer a.settle(p, room)
	a.tally.call(p, a.limiter.Stats(a.account))
	return a.client.chat(ctx, p.body, room.Arrived)
}

// settle ends a call that was sent. Its estimate stays, also when it was refused
// or failed: the provider charges it on arrival, from its size and max_tokens, and
// gives nothing back when the answer is shorter.
func (a *agents) settle(p prompt, room *ratelimit.Reservation) {
	if a.unsafe {
		a.limiter.RecordUsage(a.account, p.estimate, p.maxTokens)
		a.tally.look(a.limiter.Stats(a.account))
		return
	}
	room.Commit(p.estimate, p.maxTokens)
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
