package sqlitelog

import (
	"errors"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// format is the user_version of a database that several processes share. A version that does
// not know the log must not write there, so it is larger than those of internal/sqlitestate,
// with room for more of both. Databases from earliestFormat on are brought up to it: see upgrade.
const (
	format         = 102
	foundFormat    = 101 // without pools, classes and money
	earliestFormat = 100 // without what was found; the events of each are in another table
)

// Private are the formats that a limiter opens that keeps a copy of its own: not those that
// processes share.
var Private = sqlitestate.Formats{
	Earliest: earliestFormat, Extended: format,
	Refused: errors.New("the database is shared by several processes: open it with Config.Shared"),
}

// shared are the formats that a Log opens.
var shared = sqlitestate.Formats{Earliest: earliestFormat, Extended: format}

// The values of Options.Durability.
const (
	DurableProcess = "process" // a commit outlasts the process
	DurablePower   = "power"   // and a loss of power
)

// LongestSpan is the longest minute that a process may count by, in nanoseconds.
const LongestSpan = int64(time.Minute + 24*time.Hour)

// Options are the settings of a Log by its limiter. Now has no default.
type Options struct {
	Process    int64         // the limiter's number among the processes; above zero
	Durability string        // DurableProcess, which is the default, or DurablePower
	LeaseTTL   time.Duration // how long a process counts as alive after it has said so
	FreshStart bool          // a lost database does not mean that the minute is used
	Span       int64         // the limiter's own minute, in nanoseconds

	// Machine is the machine's time on the limiter's time line. The zero value is that of a
	// machine where it is not known.
	Machine clock.Machine
	// Now returns the present instant on the limiter's time line, and what the wall clock
	// shows, in UnixNano. It must be safe for concurrent use. Begin and Owner call it.
	Now func() (instant, wall int64)
	// Report gets the error of a damaged database that was renamed; nil discards it. It must not
	// wait for anything.
	Report func(error)
}
