// Package sharedlog is the seam between a limiter and a store in which many processes decide as
// one. The store keeps a log of events: the charges, settlements and settings of each process, in
// the order in which all of them apply it. A limiter keeps the result of the events in memory,
// and decides there.
//
// The limiter's package uses a Log; internal/sharedlog/sqlitelog is one in a file that the
// processes of a machine share. Package sharedlogtest has the suite that every Log passes.
package sharedlog

import (
	"context"
	"errors"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Log is a log of events that many processes share.
//
// One goroutine at a time may be between Begin and the end of its step, or in Close. The
// other methods may be called at any time, by any goroutine.
//
// Begin, Read and Commit fail when the store cannot be used. The limiter then goes on in
// memory, and tries Begin with Everything now and then, which is also how it starts: the
// log opens, repairs or replaces whatever that takes.
type Log interface {
	// Begin begins a step: a change that no other process's step comes between. seen is the
	// place of the last event that the caller has applied, or Everything. The error wraps
	// ErrNoTime if ctx ended, or its deadline came, while the log waited for other processes:
	// nothing is wrong with the store then.
	Begin(ctx context.Context, seen int64) (Step, error)

	// Stale guesses, without a question to the store, whether there may be events behind seen.
	// It may be wrong for some milliseconds.
	Stale(seen int64) bool

	// Read returns the events behind seen. The error wraps ErrIncomplete where some of them
	// have been deleted: the next step reads everything. It wraps ErrNoTime where another
	// program keeps the store busy for the moment.
	Read(ctx context.Context, seen int64) (News, error)

	// Clock returns the clock that Event.Mono is of, and how far it is ahead of the time line
	// of this process. The zero value says that there is none: events are dated by the wall
	// clock.
	Clock() clock.Machine

	// Owner tells whether a process lives.
	Owner(process int64) Liveness

	// Changed returns a channel that receives when another process may have added events; nil
	// where the log cannot tell, and has to be asked now and then.
	Changed() <-chan struct{}

	// Close releases everything that the log holds. It ends no step. A closed log fails.
	Close() error
}

// Everything is passed to Begin as seen when memory does not follow the log: at the start, and
// after a failure. News then has an Image.
const Everything int64 = -1

var (
	// ErrNoTime says that the caller's time was over before its turn came.
	ErrNoTime = errors.New("no time left to wait for other processes")
	// ErrPartly says that others came in the middle of a batch that takes a store several writes:
	// a part of it is in the log, and everything has to be read to know which.
	ErrPartly = errors.New("only a part of the changes was written")
	// ErrIncomplete says that events were deleted before they were read.
	ErrIncomplete = errors.New("events are missing")
	// ErrReplaced says that the store has another log than the one that was followed, and that
	// nothing was written. The caller goes on with Everything.
	ErrReplaced = errors.New("the log is not the one that was followed")
	// ErrConflict says that other processes have added events since the step began, and that
	// nothing was written. Step.News has them.
	ErrConflict = errors.New("another process wrote first")
)

// Step is a change under way. It ends with a Commit that succeeds or fails with another
// error than ErrConflict, or with Rollback.
type Step interface {
	// News returns the events that other processes have added since seen, and after an
	// ErrConflict since the previous News.
	News() News
	// Commit writes a batch and ends the step. first is the place that the first event of the
	// batch got; the others follow it. After ErrConflict the step goes on: the caller applies
	// News and decides again. After any other error the batch may have been written or not.
	Commit(b *Batch) (first int64, err error)
	// Rollback ends the step without a change.
	Rollback()
}

// News holds the events that other processes have added.
type News struct {
	Events []*Event // in their order, without a gap
	Image  *Image   // in place of Events where some are missing, or everything was asked for

	// Span is the longest minute of all processes, in nanoseconds; 0 where the log has not
	// looked. An event must be kept for so long.
	Span int64
	// Folded is the place up to which events that count no more may have been deleted. Beside
	// events it is always told: what the end of a call does depends on it. Without events it is 0
	// where the log has not looked.
	Folded int64
}

// Image is the whole content of a log.
type Image struct {
	Identity string // which log it is; one that took the place of another has another
	Events   []*Event
	// Quotas, Cooldowns and Days are those after the last of Events, by model.
	Quotas    map[string]state.Quota
	Cooldowns map[string]state.Cooldown
	Days      map[string]state.DayUsage
	// Said is where the quotas come from; nothing where only versions wrote that do not know that.
	Said map[string]state.Said
	// Answers is what was learned of the models' answers, by the last event of each.
	Answers map[string]state.Answers
	// Found is what was found of the models' limits, by the last event of each.
	Found map[string]state.Found
	// Classes has the text of the last event of the kind Classes for each Model, if it is not
	// empty.
	Classes map[string]string
	// Spend is what was spent, by account, after the last of Events.
	Spend map[string]state.Spend

	Processes []int64 // that may hold something, this one excepted

	// Until UsedWall, in UnixNano, all minutes count as used, because a log was lost; 0 for
	// never. UsedMono is the same by Clock, 0 if unknown.
	UsedWall, UsedMono int64
}

// Missing returns those of some events that the image does not have. The events of the time before
// the store was shared, which are of process 0, are not among them.
func (img *Image) Missing(events []*Event) (missing []*Event) {
	has := make(map[Key]bool, len(img.Events))
	for _, e := range img.Events {
		has[e.Key()] = true
	}
	for _, e := range events {
		if !has[e.Key()] && e.Process != 0 {
			missing = append(missing, e)
		}
	}
	return missing
}

// Batch is the content of one write.
type Batch struct {
	Events []*Event
	// Appends says that nothing in the batch was decided: events of others that came first change
	// nothing about it. A Remote writes it behind them, and after Commit tells of them in News.
	// Other logs need not look.
	Appends bool
	// Added is what each of Events adds to the day of its model.
	Added []DayAdded
	// Passed are events that count no more, in their order: their days are to be kept, because
	// Drops may delete them.
	Passed []*Event
	// Drops are the places of events that are to be deleted: from, to, both included.
	Drops [][2]int64
	// Renew renews the lease of this process. Vouch extends the leases of other processes, which
	// were lost with the log that this one replaces.
	Renew bool
	Vouch []int64
	// NameOf returns the name under which a model is counted; nil where each is its own. With
	// a Reset of a name go the cooldowns of all models that are counted under it: a cooldown
	// stays under the name that its model had when it was written. Commit calls it.
	NameOf func(model string) string
	// Sweep asks to delete days and cooldowns that are long over.
	Sweep bool
	// Wall and Mono are the present moment: in UnixNano, and by Clock (0 if unknown).
	Wall, Mono int64
}

// Liveness tells whether a process lives.
type Liveness int

// The states of a process.
const (
	// Alive processes keep what they hold. So do those of which nothing is known yet.
	Alive Liveness = iota
	// Silent processes have not renewed their lease, but are not known to be dead: they may be
	// stopped. They keep their calls in flight and lose their places in line.
	Silent
	// Dead processes hold nothing any more.
	Dead
)
