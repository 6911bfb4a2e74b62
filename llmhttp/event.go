package llmhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// EventKind says what happened.
type EventKind string

const (
	// EventAdmitted: a call has its place in the quota and is sent. Wait and Charged are set.
	EventAdmitted EventKind = "admitted"
	// EventRefused: a call was not sent. Err says why.
	EventRefused EventKind = "refused"
	// EventAnswered: the headers of an answer are there. Status is set.
	EventAnswered EventKind = "answered"
	// EventProblem: the provider did not answer a call as asked. Status and Problem are set,
	// and Until, if the model pauses.
	EventProblem EventKind = "problem"
	// EventRetry: a call is to be sent again. Problem or Err says why. EventAdmitted follows,
	// if there is room in time.
	EventRetry EventKind = "retry"
	// EventSettled: the last charge of a call. Settled, Source and Reported are set, and Err where
	// there is no answer. It is the last event of each admission.
	EventSettled EventKind = "settled"
)

// Source says what a call was settled by.
type Source string

const (
	// SourceReported: by what the answer said was used.
	SourceReported Source = "reported"
	// SourceText: by the size of the text that was seen.
	SourceText Source = "text"
	// SourceEstimate: by the estimate of before the call.
	SourceEstimate Source = "estimate"
	// SourceRefused: the provider refused the call; the request counts, tokens do not.
	SourceRefused Source = "refused"
	// SourceUnsent: the call never left; nothing counts.
	SourceUnsent Source = "unsent"
)

// Event tells what happened to a call. No key, no prompt, no reply and no address is in it.
type Event struct {
	Kind      EventKind
	Adapter   string // who knew the call, as "openai"
	Operation string // as "chat.completions"
	Model     string // by the name that it is counted under
	Stream    bool   // the answer was asked for as a stream
	Attempt   int    // 0 at first, 1 for the first retry of Transport.Retry

	Wait     time.Duration   // how long the call waited for its place, and for its retry
	Charged  ratelimit.Usage // what was charged at admission; zero before
	Status   int             // of the answer; 0 when there was none
	Settled  ratelimit.Usage // what was charged at last, as the provider counts
	Source   Source          // what that comes from
	Reported Usage           // what the answer said, as it said it
	Problem  *Problem        // why the provider did not answer as asked
	Until    time.Time       // until when the model pauses; zero when it does not
	Err      error           // why the call was refused, or failed; of an error of Base it tells the type only
}

// quietError is the error of a Base, whose text may have an address or a part of an
// answer in it.
type quietError struct{ err error }

func (e quietError) Error() string {
	switch {
	case errors.Is(e.err, context.Canceled):
		return context.Canceled.Error()
	case errors.Is(e.err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	}
	return fmt.Sprintf("call failed: %T", e.err)
}

func (e quietError) Unwrap() error { return e.err }

// quiet returns the error for an event.
func quiet(err error) error {
	if err == nil {
		return nil
	}
	return quietError{err}
}

func (t *Transport) report(f *flight, e Event) {
	if t.OnEvent == nil {
		return
	}
	e.Adapter, e.Operation, e.Model, e.Stream = f.call.Adapter, f.call.Operation, f.name, f.call.Stream
	e.Attempt, e.Charged = f.attempt, f.charged
	t.OnEvent(e)
}
