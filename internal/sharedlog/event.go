package sharedlog

import (
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Kind tells the effect of an event. The values are stored and must stay as they are.
type Kind int64

// The kinds of events.
const (
	// Use is a charge without a settlement: of RecordUsage, or of the usage of a reservation
	// beyond an estimate that had left the window.
	Use Kind = 1
	// Reserve is the charge of a reservation, which holds a slot until an event refers to it.
	Reserve Kind = 2
	// Amend settles a reservation: its tokens become those of the event.
	Amend Kind = 3
	// Release settles a reservation and leaves its charge as it is.
	Release Kind = 4
	// Cancel settles a reservation and takes its charge back.
	Cancel Kind = 5
	// Move moves the charge of a reservation to another time.
	Move Kind = 6
	// Reset forgets the usage of a model; of all models where it names none.
	Reset Kind = 7
	// Cooldown keeps a model closed until Wall. Its Text is the cause; empty in events of versions
	// without causes.
	Cooldown Kind = 8
	// Quota sets what an origin says of the quota of a model: Text is a Saying.
	Quota Kind = 9
	// Wait puts a waiter at the end of the lines of the models that Text names, and Leave
	// takes it out again.
	Wait  Kind = 10
	Leave Kind = 11
	// Gone ends the slots and the places in line of a dead process, Ref. Its charges stay.
	Gone Kind = 12
	// Evict takes a process that does not answer, Ref, out of all lines.
	Evict Kind = 13
	// Day says how the day of a model is where no charge has changed it.
	Day Kind = 14
	// Tally is the share of several expired charges in the day.
	Tally Kind = 15
	// ReleaseAll is Release for several reservations, whose numbers are Text.
	ReleaseAll Kind = 16
	// Answers says what its process has learned of the answers of a model, which is Text. It
	// counts to nothing, and a Log keeps the last of each model.
	Answers Kind = 20
	// Found says what was found of the limits of a model by being refused, which is Text, as
	// state.FoundText. It counts to nothing, and a Log keeps the last of each model.
	Found Kind = 21
	// Spend adds to what was spent in the day and the month of an account, which is Model: Text is
	// state.SpendText of the change. A Log keeps the sum of each account until both are over.
	Spend Kind = 23
	// Classes says what the classes are, as state.ClassesText, where Model is empty; else how far
	// the line of a model is, as state.LineText, or nothing, which is that it begins anew. It
	// counts to nothing, and a Log keeps the last text of each Model that is not empty.
	Classes Kind = 24
)

// Event is a change that some process made. It says what happened to the windows, not why,
// so that all processes come to the same.
type Event struct {
	Seq     int64 // its place in the log; 0 while it has none
	Process int64 // the process that made it,
	N       int64 // and the number among the events of that process
	Kind    Kind
	Ref     int64  // a reservation or waiter of the same process by its N; or another process
	Model   string // the name under which it is counted

	At       int64 // when it counts, on the time line of the reader; not stored
	Wall     int64 // when it was made, or when a cooldown ends, in UnixNano
	Mono     int64 // the same by Log.Clock; 0 if unknown
	Age      int64 // how long before that it counts, in nanoseconds
	Requests int
	tokens.Count

	Day    state.DayUsage // the model's after the event
	HasDay bool

	Text string
}

// Key identifies an event in any log.
type Key struct{ Process, N int64 }

// Key returns the key of the event.
func (e *Event) Key() Key { return Key{e.Process, e.N} }

const (
	maxSeq = int64(1) << 62 // so that there are places behind it
	maxAge = int64(1) << 61 // so that no difference of times overflows; 73 years
)

// Check returns an error that names the field and its value if no limiter writes such an
// event. A Log calls it for every event that it reads.
func (e *Event) Check() error {
	switch {
	case e.Seq <= 0 || e.Seq > maxSeq:
		return fmt.Errorf("an event has the place %d", e.Seq)
	case e.Process < 0 || e.Process == 0 && e.Kind != Use: // 0 is the time before the store was shared
		return fmt.Errorf("event %d is of process %d", e.Seq, e.Process)
	case e.Age < 0 || e.Age > maxAge:
		return fmt.Errorf("event %d is %d ns older than its time", e.Seq, e.Age)
	}
	if err := e.checkKind(); err != nil {
		return fmt.Errorf("event %d is of kind %d: %w", e.Seq, e.Kind, err)
	}
	return nil
}

var errLater = errors.New("this version does not know it")

// checkKind refuses events that a later version may have written, and that change limits: to pass
// over one would make this process decide otherwise than those that know it.
func (e *Event) checkKind() (err error) {
	switch {
	case e.Kind == Quota:
		_, err = ParseSaying(e.Text)
	case e.Kind == Found:
		_, err = state.ParseFound(e.Text)
	case e.Kind == Spend:
		_, err = state.ParseSpendChange(e.Text)
	case e.Kind == Classes:
		err = checkClasses(e)
	case e.Kind < Use || e.Kind > ReleaseAll && e.Kind != Answers:
		err = errLater
	}
	return err
}

// CooldownOf returns the event of a cooldown that is made at an instant.
func CooldownOf(model string, c state.Cooldown, at int64) *Event {
	return &Event{Kind: Cooldown, Model: model, At: at, Wall: clock.UnixNano(c.Until), Text: c.Cause}
}

// Cooldown returns the cooldown that an event of that kind begins.
func (e *Event) Cooldown() state.Cooldown {
	return state.Cooldown{Until: time.Unix(0, e.Wall), Cause: e.Text}
}

func checkClasses(e *Event) (err error) {
	switch {
	case e.Model == "":
		_, err = state.ParseClasses(e.Text)
	case e.Text != "":
		_, err = state.ParseLine(e.Text)
	}
	return err
}
