//go:build !nosqlite

package sqlitelog

import (
	"database/sql"
	"math/rand/v2"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// The names in the table facts.
const (
	factFile     = "file"     // which file this is: a new one has another
	factBoot     = "boot"     // the start of the machine that the column mono is of
	factUsedWall = "used"     // until then, in UnixNano, all minutes count as used,
	factUsedMono = "usedmono" // and in the time of the machine
	factSpan     = "span"     // how long a row must be kept for the minute, in nanoseconds
	factFolded   = "folded"   // up to which event the table daily is
	factClasses  = "class:"   // and a model: the text of the last event of the kind Classes
)

// fact returns a fact that is an integer; 0 where there is none.
func (r rows) fact(name string) (int64, error) {
	return r.Number("SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?", name)
}

var putFact = factsTable.InsertInto("INSERT OR REPLACE")

func (r rows) setFact(name, value string) error {
	_, err := r.Exec(putFact, name, value)
	return err
}

// setClasses stores what an event says of the classes, or of the line of a model.
func (r rows) setClasses(e *sharedlog.Event) error {
	if e.Text == "" {
		_, err := r.Exec("DELETE FROM facts WHERE name = ?", factClasses+e.Model)
		return err
	}
	return r.setFact(factClasses+e.Model, e.Text)
}

// classes returns what the events of the kind Classes have said.
func (f facts) classes() map[string]string {
	all := make(map[string]string)
	for name, text := range f {
		if model, is := strings.CutPrefix(name, factClasses); is {
			all[model] = text
		}
	}
	return all
}

// facts is the table facts.
type facts map[string]string

func (r rows) readFacts() (facts, error) {
	all := make(facts)
	err := r.Each(func(rows *sql.Rows) error {
		var name, value string
		if err := sqlitestate.Scan(rows, "facts", &name, &value); err != nil {
			return err
		}
		all[name] = value
		return nil
	}, "SELECT "+factsTable.ColumnList()+" FROM facts")
	return all, err
}

// number returns a fact that is an integer; one that is not is as good as none.
func (f facts) number(name string) int64 {
	n, err := strconv.ParseInt(f[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// settling brings the facts up to date within the transaction of a step.
type settling struct {
	rows
	*content
}

func (s settling) set(name, value string) error {
	s.facts[name] = value
	return s.setFact(name, value)
}

// settle brings the facts up to date: which file it is, what its times are of, how long the
// longest minute is, and whether the minute counts as used.
func (l *Log) settle(s settling) error {
	if s.facts[factFile] == "" {
		if err := s.set(factFile, strconv.FormatInt(rand.Int64(), 36)); err != nil {
			return err
		}
	}
	if err := l.settleBoot(s); err != nil {
		return err
	}
	span := s.facts.number(factSpan)
	if span < 0 || span > LongestSpan {
		return sqlitestate.Damaged("facts: the span is %d ns", span)
	}
	if l.options.Span > span {
		if err := s.set(factSpan, strconv.FormatInt(l.options.Span, 10)); err != nil {
			return err
		}
	}
	if !l.asUsed {
		return nil
	}
	wall, mono := l.clocks()
	if err := s.set(factUsedWall, strconv.FormatInt(wall, 10)); err != nil {
		return err
	}
	return s.set(factUsedMono, strconv.FormatInt(mono, 10))
}

// settleBoot makes the times of the machine in the file those since its present start. While
// others use it that count from another start, in a container say, this limiter goes by the
// wall clock.
func (l *Log) settleBoot(s settling) error {
	boot, was := l.Clock().Boot, s.facts[factBoot]
	if boot == "" || was == boot {
		return nil
	}
	if was != "" {
		for _, other := range s.leases {
			if other.process != l.options.Process && other.mono > 0 && l.livenessOf(other.process) == fsx.Alive {
				l.machine.Store(&clock.Machine{})
				return nil
			}
		}
	}
	for _, statement := range []string{
		"UPDATE shared_events SET mono = 0 WHERE mono <> 0",
		"UPDATE processes SET lease_mono = 0",
	} {
		if _, err := s.Exec(statement); err != nil {
			return err
		}
	}
	for _, e := range s.events {
		e.Mono = 0
	}
	for i := range s.leases {
		s.leases[i].mono = 0
	}
	if err := s.set(factUsedMono, "0"); err != nil {
		return err
	}
	return s.set(factBoot, boot)
}
