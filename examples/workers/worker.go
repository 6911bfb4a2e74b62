package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
)

const (
	// model is the model whose quota the workers share.
	model = "example-model"
	// margin is how much longer than a minute a charge counts. A call may take that
	// much longer to the provider than the one that takes its place a minute later.
	margin = 250 * time.Millisecond

	// The estimate of every call, because the length of an answer is not known before
	// it. A call never uses more.
	promptEstimate = 1200
	outputEstimate = 800
)

// worker makes calls, one after the other, inside a quota that it shares with
// others it knows nothing of.
type worker struct {
	job     job
	limiter *ratelimit.RateLimiter
	out     io.Writer // to the parent
}

// workerStatus runs a worker and returns its exit status.
func workerStatus(args []string) int {
	j, err := parseJob(args)
	switch {
	case err != nil:
	case j.url != "":
		err = workBatch(j, os.Stdin, os.Stdout)
	default:
		err = work(j, os.Stdin, os.Stdout)
	}
	if err != nil {
		complain(j, err)
		return 1
	}
	return 0
}

func complain(j job, err error) { fmt.Fprintf(os.Stderr, "worker %d: %v\n", j.worker, err) }

// work makes calls until in ends: the parent closes it, or has died.
func work(j job, in io.Reader, out io.Writer) (err error) {
	demo.LeaveEndToParent()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()

	// The quota is in the database: the parent has written it.
	limiter, err := ratelimit.NewWithSQLiteConfig(j.db, ratelimit.Config{
		Shared:  true,
		Margin:  margin,
		OnError: func(err error) { complain(j, err) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, limiter.Close()) }()
	w := &worker{j, limiter, out}
	for ctx.Err() == nil {
		if err := w.callOnce(ctx); err != nil {
			return err
		}
	}
	return nil
}

// call stands for a call to a provider, and returns its usage.
func (w *worker) callOnce(ctx context.Context) error {
	asked := time.Now()
	room, err := w.limiter.Acquire(ctx, model, promptEstimate, outputEstimate)
	if ctx.Err() != nil {
		room.Cancel() // if there is any: no call will be made
		return nil
	}
	if err != nil {
		return err
	}
	at := room.ReservedAt()
	if at.Before(asked) || at.After(time.Now()) {
		return fmt.Errorf("admitted at %v, which is not between question and answer", at)
	}
	if err := w.tell(event{At: at, Tokens: promptEstimate + outputEstimate}); err != nil {
		return err
	}
	prompt, output := w.call(ctx)
	// The report precedes the Commit, so that the next user of the slot reports later.
	if err := w.tell(event{Done: true, At: at, Tokens: prompt + output}); err != nil {
		return err
	}
	room.Commit(prompt, output)
	return nil
}

// call stands for a call to a provider, which says what it used.
func (w *worker) call(ctx context.Context) (prompt, output int) {
	timer := time.NewTimer(w.job.call/2 + rand.N(w.job.call))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return 700 + rand.IntN(300), 100 + rand.IntN(300)
}

func (w *worker) tell(e event) error {
	e.Worker, e.PID = w.job.worker, os.Getpid()
	return e.write(w.out)
}
