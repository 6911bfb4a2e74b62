//go:build !nosqlite

package sqlitelog

import (
	"database/sql"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

type column = sqlitestate.Column

var (
	// stateTable has one row. Its log is 0 where there is none; had tells then whether one was
	// lost. The base is the place of the image before the newest, or of the newest if it is the
	// first; a stamp stands beside it for a log without entries. ahead is what the instants are
	// ahead of the machine's clock since its start that boot names.
	stateTable = &sqlitestate.Table{
		Name: "log_state",
		Columns: []column{
			{Name: "id"}, {Name: "log"}, {Name: "had"}, {Name: "base_seq"}, {Name: "base_sum"},
			{Name: "instant"}, {Name: "wall"}, {Name: "boot", Text: true}, {Name: "ahead"},
			{Name: "image"}, {Name: "image_seq"}, {Name: "image_sum"}, {Name: "image_size"},
		},
		Keyed: true,
	}
	// entriesTable has a row for each batch. seq and sum are those of its last entry, and prior is
	// the sum of the entry before its first, whose number is first.
	entriesTable = &sqlitestate.Table{
		Name: "log_entries",
		Columns: []column{
			{Name: "seq"}, {Name: "first"}, {Name: "prior"}, {Name: "sum"},
			{Name: "instant"}, {Name: "wall"}, {Name: "batch", Blob: true},
		},
		Keyed: true,
	}
	// piecesTable has the pieces of images: those of the newest, and of images that are being
	// saved. An id is the number of the image, shifted by pieceBits, and that of the piece.
	piecesTable = &sqlitestate.Table{
		Name:    "log_pieces",
		Columns: []column{{Name: "id"}, {Name: "piece", Blob: true}},
		Keyed:   true,
	}

	tables = []*sqlitestate.Table{stateTable, entriesTable, piecesTable}
)

// Former is a database of an earlier format, and the transaction in which it is taken over.
type Former struct {
	Format int64 // 100 to 102 was shared; less was one limiter's
	*sqlitestate.Statements

	Now  store.Stamp              // from which the log counts on that begins
	Boot string                   // names the present start of the machine; "" where it is not known
	Mono int64                    // how long ago that was, in nanoseconds
	Dead func(process int64) bool // is store.Witness.Dead, also for processes of before
}

// checkSchema makes sure that a database is empty, of this format or of one that can be taken over,
// and returns its format.
func (l *Log) checkSchema(s *sqlitestate.Statements) (version int64, isEmpty bool, err error) {
	if version, err = s.Format(); err != nil {
		return 0, false, err
	}
	all, err := s.Number(`SELECT count(*) FROM sqlite_master
		WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	isEmpty = all == 0
	switch {
	case err != nil || version == 0 && isEmpty:
	case version != format && l.store.TakeOver != nil:
		err = s.CheckSchema(sqlitestate.Formats{Earliest: firstFormer, Extended: lastFormer})
	case version != format:
		err = sqlitestate.Foreign("format %d, this version knows %d", version, format)
	default:
		for _, table := range tables {
			if _, err := s.Check(table); err != nil {
				return 0, false, err
			}
		}
	}
	return version, isEmpty, err
}

// ensureTables makes an empty database a store, and takes over one of before. had says that a log
// was lost where there is none now.
func (l *Log) ensureTables(s *sqlitestate.Statements, had bool) error {
	version, isEmpty, err := l.checkSchema(s)
	if err != nil {
		return err
	}
	isFormer := version != format && !isEmpty
	now := l.clock.stamp(new(head))
	var image []byte
	if isFormer {
		if image, err = l.takeOver(s, version, now); err != nil {
			return err
		}
	}
	for _, table := range tables {
		if err := s.Create(table); err != nil {
			return err
		}
	}
	if version != format {
		if err := s.SetFormat(format); err != nil {
			return err
		}
	}
	r := rows{s}
	if err := r.ensureState(had); err != nil || !isFormer {
		return err
	}
	return r.beginWith(image, now)
}

// takeOver makes an image of a database of an earlier format.
func (l *Log) takeOver(s *sqlitestate.Statements, version int64, now store.Stamp) (image []byte, err error) {
	if err := l.yieldToFormer(s, version); err != nil {
		return nil, err
	}
	image, err = l.store.TakeOver(&Former{
		Format: version, Statements: s,
		Now: now, Boot: l.clock.boot(), Mono: l.clock.machine.At(l.clock.line.Now()), Dead: l.Dead,
	})
	if err != nil {
		return nil, fmt.Errorf("take over format %d: %w", version, err)
	}
	return image, nil
}

// yieldToFormer returns an error if a process of before lives that has the database open. It
// would go on alone once the database is taken over, and what it charges would be lost. Any such
// process has its lease in the database from when it opens that to when it closes it. A lease is
// no proof of life, for it also stays in a copy of the file.
func (l *Log) yieldToFormer(s *sqlitestate.Statements, version int64) error {
	if version < firstFormer {
		return nil
	}
	return s.Each(func(found *sql.Rows) error {
		var process int64
		err := sqlitestate.Scan(found, "processes", &process)
		if err == nil && fsx.LivenessOf(l.lifePath(process)) == fsx.Alive {
			err = fmt.Errorf("a process of an earlier version has the database open, which is of format %d: "+
				"open it when all of them have ended", version)
		}
		return err
	}, "SELECT id FROM processes")
}
