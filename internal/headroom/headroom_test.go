package headroom

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// slackOf returns the slack of a waiter that lets so much more be charged in one dimension.
func slackOf(l *Line, of state.Dimension, room int) *Slack {
	s := Unbounded()
	s.Load[of] = l.LoadWith(room, of)
	return s
}

func TestLineWithoutDeadlinesHasHeadroom(t *testing.T) {
	var l Line
	if l.Charge(&state.Cost{Requests: math.MaxInt}, nil) {
		t.Error("a charge makes somebody late")
	}
	if load := l.LoadWith(0, state.RPM); load != 0 {
		t.Errorf("the load is %d, although nobody asks for it", load)
	}
	if l.Join(Unbounded()); l.Charge(&state.Cost{Requests: math.MaxInt, Count: tokens.Count{Input: math.MaxInt}}, nil) {
		t.Error("a charge makes somebody late who passes whatever is charged")
	}
}

func TestChargeUsesUpTheLeastSlack(t *testing.T) {
	one := state.Cost{Requests: 1, Count: tokens.Count{Input: 10, Output: 1}}
	tests := []struct {
		of   state.Dimension
		unit int // of one charge
	}{
		{state.RPM, 1}, {state.RPD, 1}, {state.TPM, 11}, {state.TPD, 11}, {state.ITPM, 10}, {state.OTPM, 1},
	}
	for _, tt := range tests {
		t.Run(state.Limits[tt.of].Field, func(t *testing.T) {
			var l Line
			patient := slackOf(&l, tt.of, 3*tt.unit)
			l.Join(patient)
			l.Join(slackOf(&l, tt.of, 2*tt.unit))
			for n := 1; n <= 3; n++ {
				if late := l.Charge(&one, nil); late != (n > 2) {
					t.Errorf("charge %d: somebody is late is %v", n, late)
				}
			}
			if !l.Holds(patient, nil) {
				t.Error("the patient one is late")
			}
			l.Forget()
			l.Join(patient)
			if !l.Charge(&one, nil) {
				t.Error("the fourth charge makes the patient one late, too; the load is forgotten")
			}
			if late := slackOf(&l, tt.of, tt.unit); !l.Holds(late, nil) {
				t.Error("one that came later has no room of its own")
			}
		})
	}
}

func TestFullBucketUsesUpSlack(t *testing.T) {
	var l Line
	q := pace.Quota{Burst: time.Second}
	q.PerMinute[pace.Requests] = 60
	p := pace.New(q, 0, int64(time.Minute), noCharges{})
	s := Unbounded()
	s.Full[pace.Requests] = int64(2 * time.Second)
	l.Join(s)
	for n := 1; n <= 3; n++ {
		p.PushRequest(0) // takes a second to drain
		if late := l.Charge(&state.Cost{Requests: 1}, p); late != (n > 2) {
			t.Errorf("charge %d: somebody is late is %v", n, late)
		}
	}
}

// The load stops at the largest int, and a slack that is as large still holds.
func TestLoadSaturates(t *testing.T) {
	var l Line
	l.Join(slackOf(&l, state.TPM, math.MaxInt))
	for range 2 {
		if l.Charge(&state.Cost{Count: tokens.Count{Input: math.MaxInt - 1}}, nil) {
			t.Error("somebody is late")
		}
	}
	if load := l.LoadWith(1, state.TPM); load != math.MaxInt {
		t.Errorf("the load is %d", load)
	}
}

// noCharges are the charges of an empty window.
type noCharges struct{}

func (noCharges) Requests() int                      { return 0 }
func (noCharges) RequestAt(int) int64                { panic("there is none") }
func (noCharges) Tokens() int                        { return 0 }
func (noCharges) TokensAt(int) (int64, tokens.Count) { panic("there is none") }
