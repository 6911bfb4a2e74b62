// Package former reads the shared quotas of the versions before, which kept a log of events beside
// what these had led to. It makes of one the image of the state with which a log of this version
// begins.
package former

import (
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Kind tells the effect of an event.
type Kind int64

// The kinds of events. What they mean is said by Content.Add and Content.Tell.
const (
	Use        Kind = 1
	Reserve    Kind = 2
	Amend      Kind = 3
	Release    Kind = 4
	Cancel     Kind = 5
	Move       Kind = 6
	Reset      Kind = 7
	Cooldown   Kind = 8
	Quota      Kind = 9
	Wait       Kind = 10
	Leave      Kind = 11
	Gone       Kind = 12
	Evict      Kind = 13
	Day        Kind = 14
	Tally      Kind = 15
	ReleaseAll Kind = 16
	Answers    Kind = 20
	Found      Kind = 21
	Pool       Kind = 22
	Spend      Kind = 23
	Classes    Kind = 24
)

// Event is a change that some process made.
type Event struct {
	Seq     int64 // its place in the log
	Process int64 // that made it; 0 for the time before the store was shared
	N       int64 // its number among the events of the process
	Kind    Kind
	Ref     int64  // a reservation of the process by its N, or another process
	Model   string // the name under which it is counted

	Wall     int64 // when it was made, in UnixNano
	Mono     int64 // the same by the machine's clock; 0 if unknown
	Age      int64 // how long before that it counts, in nanoseconds
	Requests int
	state.Count

	Day    state.DayUsage // the model's after the event
	HasDay bool

	Text string
}

const (
	maxSeq = int64(1) << 62 // so that there are places behind it
	maxAge = int64(1) << 61 // so that no difference of times overflows
)

// Check returns an error that names the field and its value if no version writes such an event, or
// only one that is unknown here: what such an event changes would be lost.
func (e *Event) Check() error {
	switch {
	case e.Seq <= 0 || e.Seq > maxSeq:
		return fmt.Errorf("an event has the place %d", e.Seq)
	case e.Process < 0 || e.Process == 0 && e.Kind != Use:
		return fmt.Errorf("event %d is of process %d", e.Seq, e.Process)
	case e.Age < 0 || e.Age > maxAge:
		return fmt.Errorf("event %d is %d ns older than its time", e.Seq, e.Age)
	case e.Kind < Use || e.Kind > ReleaseAll && e.Kind < Answers || e.Kind > Classes:
		return fmt.Errorf("event %d is of kind %d: this version does not know it", e.Seq, e.Kind)
	}
	return nil
}

// saying is the text of an event of the kind Quota: what one of the origins, the program or the
// account, says from then on. Without Origin the program says what holds.
type saying struct {
	state.Quota
	Origin string
	Is     *state.Quota // nil for nothing any more
}

// after returns what is said of a model after an event of the kind Quota, of what was said before.
func after(said state.Said, text string) (state.Said, error) {
	var s saying
	if err := state.DecodeStrictly(text, &s); err != nil {
		return said, err
	}
	is, origin := &s.Quota, state.Program
	if s.Origin != "" {
		var known bool
		if origin, known = state.OriginOf(s.Origin); !known || origin > state.Account {
			return said, fmt.Errorf("a quota of the origin %q", errtext.Clip(s.Origin))
		}
		is = s.Is
	}
	if is == nil {
		said.Drop(origin)
		return said, nil
	}
	if reason, bad := is.Invalid(); bad {
		return said, errors.New(reason)
	}
	said.Set(origin, *is)
	return said, nil
}
