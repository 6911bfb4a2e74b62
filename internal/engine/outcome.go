package engine

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Outcome is what a command has brought about, as far as any caller hears of it.
type Outcome struct {
	Ignored bool            // it names what is not there, or says what is known
	Verdict verdict.Verdict // on the requests of Admit; why a waiter of Enter stands in line
	Waits   bool            // the waiter of Enter stands in line
	Calls   []account.ID    // that Admit made
	Done    bool            // what the verb reports: see Engine.Record, Cool, Observe and Refuse
	Ended   []Ended         // the waiters that have ended, in that order
}

// Ended is the end of a wait.
type Ended struct {
	ID      account.ID      // of the waiter
	Served  int             // the option that it was served by; -1 for none
	Calls   []account.ID    // that it made
	Kind    lines.Kind      // why it was refused,
	Of      int             // of which option that is; -1 for none
	Verdict verdict.Verdict // and the last on that option
}

func endOf(w *lines.Waiter) Ended {
	end := Ended{ID: w.ID, Served: -1, Of: -1, Calls: idsOf(w.Calls), Kind: w.Why.Kind}
	if w.Served != nil {
		end.Served = slices.Index(w.Candidates, w.Served)
	}
	if w.Why.Of != nil {
		end.Of, end.Verdict = slices.Index(w.Candidates, w.Why.Of), w.Why.Of.Verdict
	}
	return end
}

func idsOf(calls []*account.Call) []account.ID {
	if len(calls) == 0 {
		return nil
	}
	ids := make([]account.ID, len(calls))
	for i, c := range calls {
		ids[i] = c.ID
	}
	return ids
}

// Digest is a hash of outcomes, each chained to those before it, in the manner of FNV-1a. Zero is
// that of none.
type Digest uint64

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// After returns the digest after one more outcome.
func (d Digest) After(o *Outcome) Digest {
	if d == 0 {
		d = fnvOffset
	}
	d = d.bools(o.Ignored, o.Waits, o.Done).verdict(&o.Verdict).ids(o.Calls).int(int64(len(o.Ended)))
	for i := range o.Ended {
		end := &o.Ended[i]
		d = d.id(end.ID).int(int64(end.Served)).ids(end.Calls).int(int64(end.Kind)).int(int64(end.Of)).verdict(&end.Verdict)
	}
	return d
}

func (d Digest) byte(b byte) Digest { return (d ^ Digest(b)) * fnvPrime }

// int takes in a number at once. The shift has its high bits reach the low ones.
func (d Digest) int(n int64) Digest {
	d = (d ^ Digest(n)) * fnvPrime
	return d ^ d>>32
}

func (d Digest) string(s string) Digest {
	for i := range len(s) {
		d = d.byte(s[i])
	}
	return d.int(int64(len(s)))
}

func (d Digest) bools(all ...bool) Digest {
	bits := byte(0)
	for i, is := range all {
		if is {
			bits |= 1 << i
		}
	}
	return d.byte(bits)
}

func (d Digest) id(id account.ID) Digest { return d.int(id.Process).int(id.N).int(int64(id.Place)) }

func (d Digest) ids(all []account.ID) Digest {
	d = d.int(int64(len(all)))
	for _, id := range all {
		d = d.id(id)
	}
	return d
}

func (d Digest) verdict(v *verdict.Verdict) Digest {
	return d.bools(v.Allowed, v.Never, v.OverBudget, v.Keeps).string(v.Code).string(v.Reason).string(v.Cause).
		int(int64(v.Retry)).int(int64(v.Item)).int(v.Wait()).int(v.OwnWait())
}
