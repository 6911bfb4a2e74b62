//go:build !nosqlite

package sqlitelog

import (
	"database/sql"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// rows reads and writes the rows of the database on one connection.
type rows struct{ *sqlitestate.Statements }

// eventsAfter returns the events behind a place, in order. They are complete unless some of
// them have been deleted: each has the place that follows that of the one before it.
func (r rows) eventsAfter(seq int64) (events []*sharedlog.Event, complete bool, err error) {
	complete = true
	err = r.Each(func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		seq++
		complete = complete && e.Seq == seq
		events = append(events, e)
		return nil
	}, "SELECT "+eventsTable.ColumnList()+" FROM shared_events WHERE seq > ? ORDER BY seq", seq)
	return events, complete, err
}

// scanEvent reads the columns of eventsTable.
func scanEvent(rows *sql.Rows) (*sharedlog.Event, error) {
	e := new(sharedlog.Event)
	var requests, input, output int64
	if err := sqlitestate.Scan(rows, eventsTable.Name, &e.Seq, &e.Process, &e.N, &e.Kind, &e.Ref, &e.Model, &e.Wall, &e.Mono, &e.Age,
		&requests, &input, &output, &e.HasDay, &e.Day.Start, &e.Day.Count, &e.Day.Tokens, &e.Text); err != nil {
		return nil, err
	}
	if err := e.Check(); err != nil {
		return nil, sqlitestate.Damaged("%s: %w", eventsTable.Name, err)
	}
	e.Requests = tokens.SaturatedInt(requests)
	e.Count = tokens.Count{Input: tokens.SaturatedInt(input), Output: tokens.SaturatedInt(output)}.Clamp()
	e.Day.Count, e.Day.Tokens = max(e.Day.Count, 0), max(e.Day.Tokens, 0)
	return e, nil
}

// insertEvent is the statement of writeEvent.
var insertEvent = eventsTable.InsertInto("INSERT")

// writeEvent stores an event, with what it changes in the other tables. nameOf is that of
// sharedlog.Batch.
func (r rows) writeEvent(e *sharedlog.Event, seq int64, nameOf func(model string) string) error {
	_, err := r.Exec(insertEvent, seq, e.Process, e.N, int64(e.Kind), e.Ref, e.Model, e.Wall, e.Mono, e.Age,
		e.Requests, e.Input, e.Output, e.HasDay, e.Day.Start, e.Day.Count, e.Day.Tokens, e.Text)
	if err != nil {
		return err
	}
	switch e.Kind {
	case sharedlog.Reset:
		return r.forget(e.Model, nameOf)
	case sharedlog.Cooldown:
		return r.PutCooldown(e.Model, e.Cooldown())
	case sharedlog.Quota:
		return r.writeQuota(e)
	case sharedlog.Answers:
		a, err := state.ParseAnswers(e.Text)
		if err == nil {
			err = r.PutAnswers(e.Model, a)
		}
		return err
	case sharedlog.Found:
		f, err := state.ParseFound(e.Text)
		if err == nil {
			err = r.PutFound(e.Model, f)
		}
		return err
	case sharedlog.Pool:
		return r.writePool(e)
	case sharedlog.Classes:
		return r.setClasses(e)
	case sharedlog.Gone:
		_, err := r.Exec("DELETE FROM processes WHERE id = ?", e.Ref)
		return err
	}
	return nil
}

// writePool stores the members of a pool, or that it is none any more.
func (r rows) writePool(e *sharedlog.Event) error {
	models, gone, err := state.ParsePool(e.Text)
	switch {
	case err != nil:
		return err
	case gone:
		return r.DropPool(e.Model)
	}
	return r.PutPool(e.Model, models)
}

// writeQuota stores what an event says of the quota of a model, beside what was said. Where nobody
// says anything any more, the quota is gone.
func (r rows) writeQuota(e *sharedlog.Event) error {
	saying, err := sharedlog.ParseSaying(e.Text)
	if err != nil {
		return err
	}
	var said state.Said
	q, from, has, err := r.ReadQuota(e.Model)
	if err != nil {
		return err
	}
	if has {
		said = provenance.Shared(q, from)
	}
	if said = saying.After(said); said.IsEmpty() {
		return r.DropQuota(e.Model)
	}
	q = provenance.Of(said)
	if _, err := r.PutQuota(e.Model, q); err != nil {
		return err
	}
	if said == state.SaidBy(state.Program, q) {
		said = state.Said{} // as in versions that do not know origins
	}
	return r.PutSaid(e.Model, said)
}

// forget deletes what is known of a model beside the events; of all where it is empty. With
// it go the cooldowns of all models that are counted under its name.
func (r rows) forget(model string, nameOf func(model string) string) error {
	if err := r.DropDay(model); err != nil {
		return err
	}
	if err := r.DropCooldown(model); err != nil || model == "" || nameOf == nil {
		return err
	}
	models, err := r.CooldownModels()
	if err != nil {
		return err
	}
	for _, other := range models {
		if nameOf(other) == model {
			if err := r.DropCooldown(other); err != nil {
				return err
			}
		}
	}
	return nil
}

// fold writes the days after the events that count no more to the table daily, and adds what was
// spent to the table spend. The last event of a
// model says what its day is, so the table is needed only once the events are deleted, and a write
// with each event would cost a page every time. Events that another process has folded are left
// alone, because later ones may have been deleted.
func (r rows) fold(passed []*sharedlog.Event) error {
	if len(passed) == 0 {
		return nil
	}
	folded, err := r.fact(factFolded)
	if err != nil {
		return err
	}
	last := make(map[string]*sharedlog.Event)
	for _, e := range passed {
		switch {
		case e.Seq <= folded:
		case e.Kind == sharedlog.Spend:
			change, err := state.ParseSpendChange(e.Text)
			if err == nil {
				err = r.AddSpend(e.Model, change)
			}
			if err != nil {
				return err
			}
		case e.Kind == sharedlog.Reset:
			if e.Model == "" {
				clear(last)
			} else {
				delete(last, e.Model)
			}
			if err := r.DropDay(e.Model); err != nil {
				return err
			}
		case e.HasDay:
			last[e.Model] = e
		}
	}
	for model, e := range last {
		if err := r.PutDay(model, e.Day); err != nil {
			return err
		}
	}
	if to := passed[len(passed)-1].Seq; to > folded {
		return r.setFact(factFolded, strconv.FormatInt(to, 10))
	}
	return nil
}

// drop deletes the events from one place to another, both included.
func (r rows) drop(from, to int64) error {
	_, err := r.Exec("DELETE FROM shared_events WHERE seq >= ? AND seq <= ?", from, to)
	return err
}

// lease is the lease of a process, as its last renewal left it.
type lease struct {
	process    int64
	wall, mono int64 // the renewal, in UnixNano and by the machine's clock; mono is 0 if unknown
	ttl        int64 // in nanoseconds
}

// holds reports whether a lease has not run out. By the wall clock alone, a lease from the future
// holds, too: the clock was set back, and a process that lives renews its lease again.
func (l *lease) holds(wall, mono int64) bool {
	age := wall - max(l.wall, 0) // no difference overflows
	if l.mono > 0 && mono > 0 {
		age = mono - l.mono
	}
	return age <= l.ttl
}

// renew writes the lease of a process, from now on.
func (r rows) renew(process, wall, mono int64, ttl time.Duration) error {
	_, err := r.Exec(renewLease, process, wall, mono, int64(ttl))
	return err
}

// vouch is renew for another process, unless that has written a lease itself.
func (r rows) vouch(process, wall, mono int64, ttl time.Duration) error {
	_, err := r.Exec(vouchLease, process, wall, mono, int64(ttl))
	return err
}

var (
	renewLease = processesTable.InsertInto("INSERT OR REPLACE")
	vouchLease = processesTable.InsertInto("INSERT OR IGNORE")
	allLeases  = "SELECT " + processesTable.ColumnList() + " FROM processes"
)

// readLeases returns the leases of all processes.
func (r rows) readLeases() ([]lease, error) { return r.leasesOf(allLeases) }

// readLease returns the lease of a process; the zero value, which does not hold, where it has none.
func (r rows) readLease(process int64) (l lease, err error) {
	leases, err := r.leasesOf(allLeases+" WHERE id = ?", process)
	if len(leases) > 0 {
		l = leases[0]
	}
	return l, err
}

func (r rows) leasesOf(query string, args ...any) (leases []lease, err error) {
	err = r.Each(func(rows *sql.Rows) error {
		var l lease
		if err := sqlitestate.Scan(rows, "processes", &l.process, &l.wall, &l.mono, &l.ttl); err != nil {
			return err
		}
		leases = append(leases, l)
		return nil
	}, query, args...)
	return leases, err
}
