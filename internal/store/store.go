package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"
)

// Store opens the log of a limiter. It may serve several limiters, and is safe for concurrent use.
type Store interface {
	// Open opens the log for one process. It may ask the store; it creates no log (see Log.Begin).
	Open(ctx context.Context, options Options) (Log, error)
}

// Viewer is a Store that can be looked at without a part in the log.
type Viewer interface {
	Store
	// View returns what is in the store. It writes nothing there, leaves the former layouts as they
	// are, and keeps nobody from writing. It fails where there is no log, and where that cannot be
	// read.
	View(ctx context.Context) (View, error)
}

// View is what a log holds at one moment.
type View struct {
	Image   Image   // the newest,
	Entries []Entry // and all entries behind it
	Now     Stamp   // the moment, by the store's clock
}

// Options are what a Log has to know of the limiter that opens it.
type Options struct {
	// Process is the number under which the limiter appends. It is above zero, random and new at
	// each Open. A Witness shows by it that the process lives.
	Process int64
	// Keep is how long the store must keep the log when nobody touches it. A store with an expiry
	// counts anew from each Append, Save and Begin. Zero is for ever.
	Keep time.Duration
	// Report gets warnings, and errors that no method returns; nil discards them. It may be called
	// from any goroutine, and must not wait for anything.
	Report func(error)
}

// NewID returns a random number for a process or a log: above zero, and within an int64.
func NewID() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])>>1 | 1
}

// Errors of a Log. They are matched by errors.Is, and an error may be several of them.
var (
	// ErrNotWritten says that nothing of the batch is in the log, nor will be. The same entries may
	// be sent again.
	ErrNotWritten = errors.New("not written to the log")
	// ErrTrimmed says that entries behind the given position were dropped because an image covers
	// them: Load it. Nothing is lost.
	ErrTrimmed = errors.New("the log was trimmed")
	// ErrLost says that the given position is not in the log, or that there is no log: the store
	// was emptied, lost its end, or another log is in its place.
	ErrLost = errors.New("the log was lost")
	// ErrOlder says that the store has an image that is as new or newer.
	ErrOlder = errors.New("the store has a newer image")
)

// Log puts the commands of all processes that share a quota into one order.
//
// All methods are safe for concurrent use, and return soon after their context has ended; but
// Append may heed the deadline of a context alone, and the store's own timeout where it has none. A
// call that returned for its context may still reach the store: what was passed to it must not be
// changed afterwards, also not by the receiver. Methods return the errors above and others; any
// other error says that the store is away.
type Log interface {
	// Append puts a batch behind all entries, in its order, all of it or nothing, and returns the
	// first page behind after. The own entries may be on a later one. At and Stamp of the batch are
	// ignored. An empty batch is a Read that does not wait.
	//
	// After ErrNotWritten the batch never will be in the log. After any other error it may be
	// there, once or twice, or may still arrive: behind entries that others have added meanwhile,
	// but not in another log than that of after.
	Append(ctx context.Context, after Position, batch []Entry) (News, error)

	// Read returns the first page behind after. If there is none it waits for it, for at most wait,
	// and returns News without entries then. The store may hold back news for gather, so that they
	// come in fewer pages: zero asks for each at once. It may also return the zero News after that:
	// there are entries, and the reader may know them by its appends, so it is to ask again.
	//
	// Append and Read return ErrTrimmed or ErrLost where after is no place to read from. They
	// accept the place of each entry that is there, of the newest image and of the one before.
	Read(ctx context.Context, after Position, wait, gather time.Duration) (News, error)

	// Load returns the newest image. Its At.Log is the log that is there now, which is what Begin
	// wants as old. A zero Image says that the store never had a log, as far as it knows.
	// ErrLost, beside an image of At alone, says that it had one that cannot be read any more,
	// and that nobody has begun another: what the store knew is unknown, not zero. If the image is
	// there and all entries behind it are gone, it is returned beside ErrLost.
	//
	// The log may end before the image, if its end was lost. Read says so.
	Load(ctx context.Context) (Image, error)

	// Save stores an image in pieces, shows it at once, and drops the entries that the image before
	// it covers. Nobody waits for more than a piece of it. ErrOlder: there is one as new. ErrLost:
	// image.At is not in the log.
	Save(ctx context.Context, image Image) error

	// Begin puts a log that begins with image in place of the log old, which is zero where there
	// is none. The caller chooses image.At.Log, at random, above zero and new; entries get
	// numbers above image.At.Seq. ErrLost: another log is there, so that somebody was first;
	// Load. To begin a log that is there already does nothing, so that a Begin without an answer
	// may be repeated.
	Begin(ctx context.Context, old uint64, image Image) error

	// Close ends what the Log has under way. Afterwards all methods but Close fail.
	Close() error
}

// Witness is a Log that can see the death of a process, as on one machine.
type Witness interface {
	Log
	// Dead reports whether a process has ended without Close. False says nothing.
	Dead(process int64) bool
}

// Traits are what a limiter may want to know of a Log. They are no method of Log because each has a
// default.
type Traits struct {
	// System names the kind of store, as db.system.name of OpenTelemetry does; by default "store".
	System string
	// Timeout is how long a call may wait for the store before the limiter goes on without it; by
	// default 250 ms.
	Timeout time.Duration
	// OpenTimeout is how long a limiter that opens the log waits to be told the time, and for its
	// quotas to be there; by default 30 s.
	OpenTimeout time.Duration
	// MaxStale is how old the news may be by which a call is answered that only reads; by default
	// 100 ms.
	MaxStale time.Duration
	// Contact is how old the last answer of the store may be, when it goes away, for the limiter to
	// know all that was in it; by default 3 s. An idle limiter asks three times as often. Where a
	// store that is away is noticed at once it may be longer.
	Contact time.Duration
	// Steady says that all processes read the same clock for the Stamp: a newcomer need not hear
	// from the others what time it is.
	Steady bool
	// Tick is the resolution of Stamp; by default 1 ns.
	Tick time.Duration
}

// TraitsOf returns the traits of a Log: those of its method Traits, if it has one, and defaults.
func TraitsOf(l Log) Traits {
	var t Traits
	if described, ok := l.(interface{ Traits() Traits }); ok {
		t = described.Traits()
	}
	t.System = cmp.Or(t.System, "store")
	t.Timeout = cmp.Or(t.Timeout, 250*time.Millisecond)
	t.OpenTimeout = cmp.Or(t.OpenTimeout, 30*time.Second)
	t.MaxStale = cmp.Or(t.MaxStale, 100*time.Millisecond)
	t.Contact = cmp.Or(t.Contact, 3*time.Second)
	t.Tick = max(t.Tick, 1)
	return t
}
