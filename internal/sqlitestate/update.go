package sqlitestate

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Formats says which formats of the database are opened. A database of the base format, or
// without one, always is. The zero value opens no others.
type Formats struct {
	// Earliest and Extended are the first and the last format, as user_version, of databases to
	// which an extension has added tables. Earliest is zero where there is one of them.
	Earliest, Extended int
	// Refused is what such a database is refused with; nil opens it.
	Refused error
}

// Update is the content of memory that the database may not have; DB.Store writes it.
type Update struct {
	// Quotas are those of all models, and Said is where they come from. Supplied are those among
	// them that the program did not say itself: they are written only where the database has none.
	Quotas   map[string]state.Quota
	Said     map[string]state.Said
	Supplied map[string]bool
	// Cooldowns are those of all models that are not over.
	Cooldowns map[string]state.Cooldown
	// Answers is what was learned of all models' answers.
	Answers map[string]state.Answers
	// Found is what was found of all models' limits.
	Found map[string]state.Found
	// Pools are the members of all pools.
	Pools map[string][]string
	// Spend is what was spent since the last Load or Store, by account.
	Spend map[string]state.Spend
	// Changes are in the order of their models.
	Changes []*Change

	Now    int64 // the present moment, in UnixNano
	Cutoff int64 // charges before this moment may be deleted, in UnixNano
}

// Change holds the changes of one model since it was last stored or loaded.
type Change struct {
	Model    string
	Requests []time.Time   // new ones
	Tokens   []state.Token // new ones

	// RequestFixes and TokenFixes are changes of entries that the database has.
	RequestFixes []Fix[time.Time]
	TokenFixes   []Fix[state.Token]

	Day  state.DayUsage // as memory has it
	Zone *time.Location // at whose midnight it ends; nil for a day of 24 hours

	Continues bool // memory holds the same entries and day that were stored, and more
	Forget    bool // what was stored is no longer true: it was reset or replaced
	Gone      bool // memory has nothing of the model any more
}

// Fix is a change of an entry that the database has: it goes, or it is Added. An entry that
// changes goes and is added again.
type Fix[T any] struct {
	Value T
	Added bool
}
