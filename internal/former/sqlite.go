//go:build !nosqlite

package former

import (
	"database/sql"
	"math/rand/v2"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
)

// earliest is the first format of a database that processes share.
const earliest = 100

// eventsTables are the tables of the events in databases that processes share, from earliest on.
var eventsTables = [...]string{"ledger", "shared_log", "shared_events"}

// longestFormerSpan is the longest minute of a process of before, in nanoseconds.
const longestFormerSpan = int64(time.Minute + 24*time.Hour)

// SQLite returns what takes over a database: see sqlitelog.Store.TakeOver. What was learned of the
// answers of models is in no log; learned gets it, for the process that takes over.
func SQLite(learned func(map[string]state.Answers)) func(*sqlitelog.Former) ([]byte, error) {
	return func(f *sqlitelog.Former) ([]byte, error) {
		d := database{f, New(account.Now{Instant: f.Now.Instant, Wall: f.Now.Wall})}
		answers, err := d.read()
		if err != nil {
			return nil, err
		}
		image, err := d.Image(rand.Uint64())
		if err != nil {
			return nil, err
		}
		if err := d.drop(); err != nil {
			return nil, err
		}
		learned(answers)
		return image, nil
	}
}

// database is a database of before, and what was read of it.
type database struct {
	*sqlitelog.Former
	*Content
}

func (d database) isShared() bool { return d.Format >= earliest }

func (d database) read() (map[string]state.Answers, error) {
	formats := sqlitestate.Formats{Earliest: earliest, Extended: earliest + len(eventsTables) - 1}
	if err := d.EnsureTables(formats); err != nil {
		return nil, err
	}
	if !d.isShared() {
		return d.readSnapshot()
	}
	models, err := d.ReadModels()
	if err != nil {
		return nil, err
	}
	d.Quotas, d.Said, d.Pools, d.Cooldowns = models.Quotas, models.Said, models.Pools, models.Cooldowns
	d.Days, d.Found, d.Content.Spend = models.Days, models.Found, models.Spend
	if err := d.readFacts(); err != nil {
		return nil, err
	}
	if err := d.readLeases(); err != nil {
		return nil, err
	}
	return models.Answers, d.readEvents()
}

// readSnapshot reads a database that one limiter had for itself.
func (d database) readSnapshot() (map[string]state.Answers, error) {
	is, err := d.ReadSnapshot()
	if err != nil {
		return nil, err
	}
	d.Quotas, d.Said, d.Pools, d.Cooldowns = is.Quotas, is.Said, is.Pools, is.Cooldowns
	d.Found, d.Content.Spend, d.Usage = is.Found, is.Spend, is.Usage
	return is.Answers, nil
}

// readFacts reads what the database says of itself.
func (d database) readFacts() error {
	facts := make(map[string]string)
	err := d.Each(func(found *sql.Rows) error {
		var name, value string
		err := sqlitestate.Scan(found, "facts", &name, &value)
		facts[name] = value
		return err
	}, "SELECT name, value FROM facts")
	if err != nil {
		return err
	}
	number := func(name string) int64 {
		n, err := strconv.ParseInt(facts[name], 10, 64)
		if err != nil {
			return 0 // one that is none is as good as none
		}
		return n
	}
	if d.Span = number("span"); d.Span < 0 || d.Span > longestFormerSpan {
		return sqlitestate.Damaged("facts: the span is %d ns", d.Span)
	}
	if boot := facts["boot"]; boot != "" && boot == d.Boot {
		d.Content.Mono = d.Former.Mono
	}
	if d.UsedAt = number("used"); d.UsedAt != 0 {
		d.UsedAt = d.Now().Wall - d.Ago(d.UsedAt, number("usedmono"))
	}
	d.Folded, d.Content.Classes = number("folded"), facts["class:"]
	return nil
}

// Now is the moment of the image.
func (d database) Now() account.Now { return d.Content.Now }

// readLeases reads the leases of the processes that may live. A lease also stays in a copy of the
// file, which has no life files beside it.
func (d database) readLeases() error {
	return d.Each(func(found *sql.Rows) error {
		var process, wall, mono, ttl int64
		if err := sqlitestate.Scan(found, "processes", &process, &wall, &mono, &ttl); err != nil {
			return err
		}
		if silent := d.Ago(wall, mono); silent <= ttl && process > 0 && !d.Dead(process) {
			d.Processes[process] = Process{Silent: silent, Lease: ttl}
		}
		return nil
	}, "SELECT id, lease, lease_mono, ttl FROM processes")
}

func (d database) readEvents() error {
	table := eventsTables[d.Format-earliest]
	var e Event
	err := d.Each(func(found *sql.Rows) error {
		var requests, input, output int64
		err := sqlitestate.Scan(found, table, &e.Seq, &e.Process, &e.N, &e.Kind, &e.Ref, &e.Model, &e.Wall, &e.Mono, &e.Age,
			&requests, &input, &output, &e.HasDay, &e.Day.Start, &e.Day.Count, &e.Day.Tokens, &e.Text)
		if err != nil {
			return err
		}
		e.Requests = state.SaturatedInt(requests)
		e.Count = state.Count{Input: state.SaturatedInt(input), Output: state.SaturatedInt(output)}.Clamp()
		if err := d.Add(&e); err != nil {
			return sqlitestate.Damaged("%s: %w", table, err)
		}
		return nil
	}, `SELECT seq, process, n, kind, ref, model, wall, mono, age, requests, input, output,
		has_day, day_start, day_count, day_tokens, text FROM `+table+` ORDER BY seq`)
	if err == nil && d.Folded > e.Seq { // the last event is never deleted
		err = sqlitestate.Damaged("facts: the days are those after event %d, which is not there yet", d.Folded)
	}
	return err
}

// drop drops all that was read.
func (d database) drop() error {
	if err := d.DropTables(); err != nil || !d.isShared() {
		return err
	}
	for _, table := range []string{eventsTables[d.Format-earliest], "processes", "facts"} {
		if _, err := d.Exec("DROP TABLE " + table); err != nil {
			return err
		}
	}
	return nil
}
