package fleet

import (
	"cmp"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
)

const (
	// Nap is the silence after which the waiters of a member are passed over. A member with waiters
	// says that it lives more often than that.
	Nap = int64(2 * time.Second)

	// Rules is the greatest rules number that this version knows. Whoever changes what a command
	// does raises Rules, and keeps the old behaviour while State.Rules is lower. Otherwise
	// processes of two versions would come to two states. The old behaviour may go one release
	// later.
	Rules = 2

	// skips is the rules number of those who read which numbers were skipped.
	skips = 2

	// Silence is how long a member may say nothing before it is none.
	Silence = int64(25 * time.Minute)

	// pause is how often the members are looked at, by the clock of the log.
	pause = int64(time.Second / 2)

	// mostSkipped is how many runs of numbers that were not heard are known of a process. Of the
	// oldest it is forgotten.
	mostSkipped = 1024
)

// Member is a process that shares the quota, or has done so.
type Member struct {
	Process int64
	N       int64 // of its last command
	Order   int64 // in which it joined
	HeardAt int64 // the instant of its last command
	Left    bool  // it is no member any more; N is kept because a command may still arrive

	Lease     int64
	MaxModels int
	Rules     int

	Owes   int64 // the Outage that it has not answered; 0 for none
	Shares int   // of how many its share is that is withheld,
	Until  int64 // and until which instant

	skipped []run // numbers up to N that were not heard, in their order
	asleep  bool  // its waiters are passed over
}

// run is a row of numbers.
type run struct{ first, last int64 }

// Heard reports whether the log has heard a command of the process under a number, and something
// may have come of it. It has not heard what was lost before a later one arrived, and what the
// process never sent. Nothing has come of a waiter that was not served.
func (m *Member) Heard(n int64) bool {
	return m.HeardAll(n, n)
}

// HeardAll reports whether all numbers from one to another were heard.
func (m *Member) HeardAll(first, last int64) bool {
	if m == nil || last > m.N {
		return false
	}
	i := m.search(first)
	return i >= len(m.skipped) || last < m.skipped[i].first
}

// search returns where the first run is that ends no earlier than a number.
func (m *Member) search(n int64) int {
	i, _ := slices.BinarySearchFunc(m.skipped, n, func(r run, n int64) int { return cmp.Compare(r.last, n) })
	return i
}

// hear notes that the process has spoken under a number above N.
func (m *Member) hear(n int64) {
	if n > m.N+1 {
		m.skip(run{m.N + 1, n - 1})
	}
	m.N = n
}

// skip notes numbers under which nothing was heard.
func (m *Member) skip(r run) {
	from := m.search(r.first - 1)
	to := from
	for to < len(m.skipped) && m.skipped[to].first <= r.last+1 {
		r.first, r.last = min(r.first, m.skipped[to].first), max(r.last, m.skipped[to].last)
		to++
	}
	m.skipped = slices.Replace(m.skipped, from, to, r)
	m.skipped = slices.Delete(m.skipped, 0, max(len(m.skipped)-mostSkipped, 0))
}

// members are all processes by the order in which they joined.
type members struct {
	of    map[int64]*Member
	all   []*Member
	order int64
}

// Members visits the members, the eldest first.
func (s *State) Members(yield func(*Member) bool) {
	for _, m := range s.members.all {
		if !m.Left && !yield(m) {
			return
		}
	}
}

// Member returns what is known of a process; nil for nothing.
func (s *State) Member(process int64) *Member { return s.members.of[process] }

// Size returns how many members there are.
func (s *State) Size() (n int) {
	for range s.Members {
		n++
	}
	return n
}

// Rules returns the rules number in force: the least that all members know, and Rules without any.
func (s *State) Rules() int {
	rules := Rules
	for m := range s.Members {
		rules = min(rules, m.Rules)
	}
	return rules
}

// join makes a process a member, or says anew what it is like.
func (s *State) join(process int64, j Join, now account.Now) *Member {
	m := s.members.of[process]
	if m == nil {
		m = &Member{Process: process, Left: true}
		s.members.of[process] = m
		s.members.all = append(s.members.all, m)
	}
	if m.Left {
		s.members.order++
		m.Left, m.Order = false, s.members.order
		s.members.all = append(slices.DeleteFunc(s.members.all, func(other *Member) bool { return other == m }), m)
	}
	m.Lease, m.MaxModels, m.Rules = j.Lease, j.MaxModels, j.Rules
	s.bound()
	return m
}

// bound has the engine keep as many models as the most modest member.
func (s *State) bound() {
	least := 0
	for m := range s.Members {
		if most := m.MaxModels; most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	s.Engine.SetMaxModels(least)
}

// leave ends a membership: what the process has open ends as lost, and its waiters leave. What it
// may have used of its share stays withheld.
func (s *State) leave(m *Member, now account.Now) {
	calls, waiters := s.Engine.Of(m.Process)
	s.Engine.Sleep(m.Process, true) // so that no waiter is served by what another one leaves
	for _, id := range waiters {
		s.applyBefore(id, engine.Leave{Process: id.Process, N: id.N}, now)
	}
	for _, id := range calls {
		s.applyBefore(id, engine.Settle{ID: id, How: account.Lost}, now)
	}
	m.Left, m.asleep = true, false
	s.Engine.Sleep(m.Process, false)
	s.bound()
}

// begin begins all leases anew.
func (ms *members) begin(now account.Now) {
	for _, m := range ms.all {
		if !m.Left {
			m.HeardAt = now.Instant
		}
	}
}

// happen is what follows from silence, before a command of a member.
func (s *State) happen(speaks *Member, now account.Now) {
	moved := speaks.asleep
	if moved {
		speaks.asleep = false
		s.Engine.Sleep(speaks.Process, false)
	}
	if now.Instant < s.check {
		s.look(moved, now)
		return
	}
	s.check = now.Instant + pause
	lapsed := false
	for _, m := range s.members.all {
		silent := now.Instant - m.HeardAt
		if m.Owes != 0 && m.Until <= now.Instant {
			m.Owes, lapsed = 0, true
		}
		if silent >= Nap && !m.asleep && !m.Left {
			m.asleep, moved = true, true
			s.Engine.Sleep(m.Process, true)
		}
		if silent >= Silence && !m.Left {
			s.leave(m, now)
		}
	}
	s.members.forget(now.Instant - s.Engine.Span())
	if lapsed {
		s.withhold(now)
	}
	s.look(moved, now)
}

func (s *State) look(moved bool, now account.Now) {
	if moved {
		s.Engine.Look(false, now)
	}
}

// forget forgets those that have left a lease and a window ago, and whose share is not withheld.
func (ms *members) forget(cut int64) {
	ms.all = slices.DeleteFunc(ms.all, func(m *Member) bool {
		is := m.Left && m.Owes == 0 && m.HeardAt+m.Lease < cut
		if is {
			delete(ms.of, m.Process)
		}
		return is
	})
}
