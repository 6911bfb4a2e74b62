package fleet

import (
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// ViewOf returns the state that the entries of a view lead to, and the moment of the view by the
// time of the log. What is due by then has not happened: only entries advance a state.
func ViewOf(v *store.View) (s *State, now account.Now, err error) {
	if s, err = Read(v.Image.Bytes, nil); err != nil {
		return nil, now, err
	}
	for i := range v.Entries {
		if err := s.tryApply(&v.Entries[i]); err != nil {
			return nil, now, err
		}
	}
	last := s.Now()
	return s, account.Now{Instant: max(s.TimeOf(v.Now), last.Instant, 1), Wall: max(v.Now.Wall, 1)}, nil
}

// tryApply is Apply that returns a panic as an error.
func (s *State) tryApply(e *store.Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("apply entry %d: panic: %v", e.At.Seq, p)
		}
	}()
	s.Apply(e)
	return nil
}

// Part is what a process has of the quota that the members share: numbers by the counted names of
// models.
type Part struct {
	Process int64
	HeardAt int64 // the instant of its last command
	Member  bool  // it is none where another process has told what it has open

	Open    map[string]int // calls,
	Tokens  map[string]int // and what these have charged
	Waiting map[string]int // one that takes any of several models waits for each of them
}

// Parts returns the part of each member and of any other process that has something open: the
// members first, the eldest before the others.
func (s *State) Parts() []Part {
	var parts []Part
	at := make(map[int64]int)
	of := func(process int64) *Part {
		i, known := at[process]
		if !known {
			i = len(parts)
			at[process] = i
			parts = append(parts, Part{
				Process: process, Open: make(map[string]int), Tokens: make(map[string]int), Waiting: make(map[string]int),
			})
		}
		return &parts[i]
	}
	for m := range s.Members {
		p := of(m.Process)
		p.HeardAt, p.Member = m.HeardAt, true
	}
	for c := range s.Engine.Open {
		p, name := of(c.ID.Process), c.Asked
		if c.Model != nil {
			name = c.Model.Name
		}
		p.Open[name]++
		p.Tokens[name] += c.Tokens.Total()
	}
	for _, w := range s.Engine.Waiters() {
		p, counted := of(w.ID.Process), make(map[string]bool)
		for _, c := range w.Candidates {
			for _, r := range engine.OptionOf(c).Requests {
				if !counted[r.Counted] {
					counted[r.Counted] = true
					p.Waiting[r.Counted]++
				}
			}
		}
	}
	return parts
}
