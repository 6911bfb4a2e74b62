// Package combine gathers the changes of goroutines that come at the same time, so that one write
// to a shared log carries them all. The limiter's ledger uses it for a log on another machine.
package combine

import (
	"slices"
	"sync"
)

// Manner says how a change may be planned and written.
type Manner int

// The manners.
const (
	// Apart is written by itself, and only if the limiter knew all that others had written.
	Apart Manner = iota
	// Reserving is Apart, and may be decided again where that was not written.
	Reserving
	// Beside is Reserving, and may be decided beside others.
	Beside
	// Appended decides nothing. It may be planned beside others, and is written whatever others
	// have written.
	Appended
	// AppendedApart decides nothing, and is planned by itself.
	AppendedApart
)

func (m Manner) joins() bool { return m == Beside || m == Appended }

// Reserves reports whether the change may be decided again.
func (m Manner) Reserves() bool { return m == Reserving || m == Beside }

// Decides reports whether the change must not be written where others came first.
func (m Manner) Decides() bool { return m == Apart || m.Reserves() }

// Job is a change that a goroutine waits for. P is what it is planned in.
type Job[P any] struct {
	Decide func(P)
	Manner Manner
	taken  bool // guarded by the Queue
	done   chan struct{}
}

// Done returns a channel that is closed when the job was carried out.
func (j *Job[P]) Done() <-chan struct{} { return j.done }

// IsDone reports whether the job was carried out.
func (j *Job[P]) IsDone() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Queue is the jobs that wait, the oldest first. The zero value is empty. It is safe for concurrent
// use, but only one goroutine at a time may be between Take and Finish.
type Queue[P any] struct {
	mu      sync.Mutex
	waiting []*Job[P]
}

// most bounds the jobs of one write, so that the store is not busy with it for long.
const most = 128

// Add adds a job to the end.
func (q *Queue[P]) Add(m Manner, decide func(P)) *Job[P] {
	j := &Job[P]{Decide: decide, Manner: m, done: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, j)
	return j
}

// Withdraw takes a job out, unless it is taken or done. It reports whether it did.
func (q *Queue[P]) Withdraw(j *Job[P]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, j)
	if i < 0 || j.taken {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// Decides reports whether one of the jobs that Take would return decides something.
func (q *Queue[P]) Decides() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.waiting[:q.firstLocked()], func(j *Job[P]) bool { return j.Manner.Decides() })
}

// firstLocked returns how many of the first jobs may be planned beside each other.
func (q *Queue[P]) firstLocked() (n int) {
	for n < min(len(q.waiting), most) && (n == 0 || q.waiting[0].Manner.joins() && q.waiting[n].Manner.joins()) {
		n++
	}
	return n
}

// Take returns the first jobs, as many as may be planned beside each other. No others are taken
// then. They stay in the queue until Finish.
func (q *Queue[P]) Take() []*Job[P] {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.firstLocked()
	for i, j := range q.waiting {
		j.taken = i < n
	}
	return slices.Clone(q.waiting[:n])
}

// Keep gives back all but the first n jobs.
func (q *Queue[P]) Keep(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.waiting[n:] {
		j.taken = false
	}
}

// Leave gives those of some jobs back that reserve, and returns the others.
func (q *Queue[P]) Leave(taken []*Job[P]) (others []*Job[P]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range taken {
		if j.Manner.Reserves() {
			j.taken = false
		} else {
			others = append(others, j)
		}
	}
	return others
}

// Finish ends jobs that were carried out, in the order in which they were taken.
func (q *Queue[P]) Finish(over []*Job[P]) {
	if len(over) == 0 {
		return
	}
	q.mu.Lock()
	left := over
	q.waiting = slices.DeleteFunc(q.waiting, func(j *Job[P]) bool {
		is := len(left) > 0 && j == left[0]
		if is {
			left = left[1:]
		}
		return is
	})
	q.mu.Unlock()
	for _, j := range over {
		close(j.done)
	}
}
