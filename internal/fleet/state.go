// Package fleet is what the processes that share a quota agree on: the engine, who shares it, and
// what time it is. It stands in front of the engine: each applies the entries of a log, in their
// order, and all come to the same state. It is as deterministic as the engine; it knows the entries
// of a log, and nothing of how they come.
package fleet

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// State is the state that the entries of a log lead to. It is not safe for concurrent use.
type State struct {
	Engine *engine.Engine

	clock   clock
	members members
	digest  engine.Digest // of all outcomes
	reader  wire.Reader   // of commands,
	decoder engine.Decoder
	check   int64          // the instant at which the members are to be looked at again
	ended   []engine.Ended // waiters that have ended before the command of the entry was applied
}

// New returns the state of a log without entries.
func New(e *engine.Engine) *State {
	return &State{Engine: e, members: members{of: make(map[int64]*Member)}}
}

// Now returns the moment of the last entry.
func (s *State) Now() account.Now { return s.clock.last }

// TimeOf returns the instant that an entry with a stamp would be dated at, if nobody knew better.
func (s *State) TimeOf(stamp store.Stamp) int64 { return s.clock.read(stamp) }

// Digest returns the hash of all outcomes so far.
func (s *State) Digest() engine.Digest { return s.digest }

// Kind says what became of an entry.
type Kind int

// The kinds.
const (
	Applied  Kind = iota
	Repeated      // its process has spoken with this number or a greater one before
	Stranger      // its process is no member
	Damaged       // its bytes are no command
)

// Result is what came of an entry.
type Result struct {
	Kind    Kind
	Command Command     // nil for a damaged one
	Now     account.Now // the moment
	Outcome engine.Outcome
	Err     error // of a damaged one
}

// Apply applies the next entry of the log. An entry that is not applied changes nothing.
func (s *State) Apply(e *store.Entry) Result {
	c, err := s.Decode(e.Command)
	if err != nil {
		return Result{Kind: Damaged, Now: s.clock.last, Err: err}
	}
	return s.ApplyCommand(e, c)
}

// Decode is Decode for who applies one command after the other: see engine.Decoder.
func (s *State) Decode(data []byte) (Command, error) {
	s.reader = *wire.NewReader(data)
	return decode(&s.reader, s.decoder.Read)
}

// ApplyCommand is Apply for an entry whose command was decoded.
func (s *State) ApplyCommand(e *store.Entry, c Command) Result {
	m := s.members.of[e.Process]
	join, joins := c.(Join)
	switch {
	case m != nil && e.N <= m.N:
		return Result{Kind: Repeated, Command: c, Now: s.clock.last}
	case !joins && (m == nil || m.Left):
		return Result{Kind: Stranger, Command: c, Now: s.clock.last}
	}
	now := s.clock.date(e)
	if joins {
		m = s.join(e.Process, join, now)
	}
	m.hear(e.N)
	m.HeardAt = now.Instant
	if _, is := c.(Outage); is {
		s.members.begin(now)
	}
	s.happen(m, now)
	r := Result{Command: c, Now: now, Outcome: s.do(m, e, c, now)}
	if s.ended != nil {
		r.Outcome.Ended, s.ended = append(s.ended, r.Outcome.Ended...), nil
	}
	for i := range r.Outcome.Ended {
		end := &r.Outcome.Ended[i]
		if waited := s.members.of[end.ID.Process]; waited != nil && end.Served < 0 {
			waited.skip(run{end.ID.N, end.ID.N})
		}
	}
	s.digest = s.digest.After(&r.Outcome)
	return r
}

// do applies the command of a member.
func (s *State) do(m *Member, e *store.Entry, c Command, now account.Now) (o engine.Outcome) {
	void := false
	switch c := c.(type) {
	case Verb:
		if told, is := c.Command.(engine.Charged); is {
			c.Command = s.heed(told, m, now)
		}
		return s.Engine.Apply(now, e.Process, e.N, c.Command)
	case Gone:
		gone := s.members.of[c.Process]
		if void = gone == nil || gone.Left || gone.N != c.N; !void {
			s.leave(gone, now)
		}
	case Bye:
		m.Owes = 0
		s.leave(m, now)
		s.withhold(now)
	case Outage:
		s.cutOff(e.At.Seq, now)
	case Answer:
		if void = m.Owes == 0 || m.Owes != c.Outage; !void {
			m.Owes = 0
			s.withhold(now)
		}
	}
	o = s.Engine.Apply(now, e.Process, e.N, engine.Advance{})
	o.Ignored = void
	return o
}

// applyBefore applies what follows from an entry before its command. The outcome of the entry tells
// of the waiters that end by it.
func (s *State) applyBefore(id account.ID, c engine.Command, now account.Now) {
	o := s.Engine.Apply(now, id.Process, id.N, c)
	s.ended = append(s.ended, o.Ended...)
}

// heed prepares for a fact. If its call is open and its process is unknown, the process becomes a
// member. If the process has left, the open call is a lost one. A waiter with the call's number
// leaves its lines, because its process has served it.
func (s *State) heed(told engine.Charged, teller *Member, now account.Now) engine.Command {
	m := s.members.of[told.ID.Process]
	switch {
	case m == nil && told.Open:
		m = s.join(told.ID.Process, Join{Lease: teller.Lease, MaxModels: teller.MaxModels, Rules: teller.Rules}, now)
		m.HeardAt = now.Instant
	case (m == nil || m.Left) && told.Open:
		told.Open, told.Hold, told.How = false, 0, account.Lost
	}
	if s.Engine.Waiter(told.ID.Process, told.ID.N) != nil {
		s.applyBefore(told.ID, engine.Leave{Process: told.ID.Process, N: told.ID.N}, now)
	}
	return told
}
