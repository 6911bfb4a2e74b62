//go:build !nosqlite

package sqlitelog

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// rows reads and writes the rows of the database on one connection, in a transaction.
type rows struct{ *sqlitestate.Statements }

// head is the row of stateTable, and the end of the log.
type head struct {
	had       bool           // there was a log, if there is none
	base, end store.Position // of log 0: there is none
	last      store.Stamp    // of the last entry
	boot      string
	ahead     int64
	image     imageRow
}

// imageRow is what the state says of the newest image.
type imageRow struct {
	id, size int64
	at       store.Position
}

const selectHead = `SELECT log, had, base_seq, base_sum, boot, ahead, image, image_seq, image_sum, image_size,
	ifnull(e.seq, base_seq), ifnull(e.sum, base_sum), ifnull(e.instant, s.instant), ifnull(e.wall, s.wall)
	FROM log_state s LEFT JOIN
	(SELECT seq, sum, instant, wall FROM log_entries ORDER BY seq DESC LIMIT 1) e ON e.seq > s.base_seq`

func (r rows) head() (*head, error) {
	h, n := new(head), 0
	err := r.Each(func(found *sql.Rows) error {
		var log, baseSum, endSum, imageSum int64
		n++
		err := sqlitestate.Scan(found, "log_state", &log, &h.had, &h.base.Seq, &baseSum, &h.boot, &h.ahead,
			&h.image.id, &h.image.at.Seq, &imageSum, &h.image.size,
			&h.end.Seq, &endSum, &h.last.Instant, &h.last.Wall)
		h.base.Log, h.base.Sum = uint64(log), uint64(baseSum)
		h.end.Log, h.end.Sum = uint64(log), uint64(endSum)
		h.image.at.Log, h.image.at.Sum = uint64(log), uint64(imageSum)
		return err
	}, selectHead)
	if err == nil && n != 1 {
		err = sqlitestate.Damaged("log_state has %d rows", n)
	}
	return h, err
}

// pageBytes is the size from which a page ends, in bytes of batches.
const pageBytes = 1 << 20

var errPageEnds = errors.New("the page ends")

// page returns the entries behind a position.
func (r rows) page(h *head, after store.Position) (news store.News, err error) {
	switch {
	case h.end.Log == 0:
		return news, fmt.Errorf("there is no log: %w", store.ErrLost)
	case after.Log != h.end.Log:
		return news, fmt.Errorf("another log is there: %w", store.ErrLost)
	case after == h.end:
		return news, nil
	case after.Seq < h.base.Seq:
		return news, store.ErrTrimmed
	}
	s := scan{after: after, found: after == h.base}
	err = r.Each(s.row, `SELECT seq, first, prior, sum, instant, wall, CASE WHEN seq = ?1 THEN x'' ELSE batch END
		FROM log_entries WHERE seq >= ?1 ORDER BY seq`, after.Seq)
	if errors.Is(err, errPageEnds) {
		news.More, err = true, nil
	}
	if err == nil && !s.found {
		err = fmt.Errorf("entry %d is not in the log: %w", after.Seq, store.ErrLost)
	}
	if err != nil {
		return store.News{}, err
	}
	news.Entries = s.entries
	return news, nil
}

// scan reads the rows from a position on, whose entry is the end of the first or in it.
type scan struct {
	after   store.Position
	found   bool // the entry of after is there, or all behind it
	size    int
	end     store.Position // of the last row that was read
	entries []store.Entry
}

func (s *scan) row(found *sql.Rows) error {
	if s.size >= pageBytes {
		return errPageEnds
	}
	var seq, first, prior, sum int64
	var stamp store.Stamp
	var batch []byte
	if err := sqlitestate.Scan(found, "log_entries", &seq, &first, &prior, &sum, &stamp.Instant, &stamp.Wall, &batch); err != nil {
		return err
	}
	end := store.Position{Log: s.after.Log, Seq: seq, Sum: uint64(sum)}
	if seq == s.after.Seq { // which is not the base: the rows behind that have greater numbers
		if s.found = end == s.after; !s.found {
			return fmt.Errorf("entry %d is another one: %w", seq, store.ErrLost)
		}
		s.end = end
		return nil
	}
	if s.end.Log == 0 && s.found && first > s.after.Seq {
		s.end = s.after // the base
	}
	entries, err := store.DecodeBatch(batch)
	isChained := s.end.Log == 0 || s.end.Sum == uint64(prior)
	behind := store.Position{Log: s.after.Log, Sum: uint64(prior)}
	if err == nil && (!isChained || place(entries, behind, first, stamp) != end) {
		err = errSum
	}
	if err != nil {
		return sqlitestate.Damaged("%w: row %d: %w", errDamaged, seq, err)
	}
	s.size, s.end = s.size+len(batch)+64*len(entries), end
	next := slices.IndexFunc(entries, func(e store.Entry) bool { return e.At.Seq > s.after.Seq })
	s.found = s.found || next > 0 && entries[next-1].At == s.after
	if !s.found {
		return errPageEnds
	}
	s.entries = append(s.entries, entries[next:]...)
	return nil
}

var errSum = errors.New("its sum is another one")

// errDamaged is in the error of rows that are not what was written.
var errDamaged = errors.New("the log is damaged")

// place gives the entries of a batch their places behind one, and their stamp.
func place(entries []store.Entry, behind store.Position, first int64, stamp store.Stamp) store.Position {
	at := behind
	for i := range entries {
		e := &entries[i]
		e.Stamp = stamp
		at = store.Position{Log: behind.Log, Seq: first + int64(i), Sum: e.Sum(at.Sum)}
		e.At = at
	}
	return at
}

// has reports whether a position is one to read from.
func (r rows) has(h *head, at store.Position) (bool, error) {
	_, err := r.page(h, at)
	if errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrTrimmed) {
		return false, nil
	}
	return err == nil, err
}

var insertEntries = entriesTable.InsertInto("INSERT")

// add writes a batch behind the end, and returns its entries.
func (r rows) add(h *head, batch []store.Entry, stamp store.Stamp) ([]store.Entry, error) {
	entries := append(make([]store.Entry, 0, len(batch)), batch...)
	first := h.end.Seq + 1
	end := place(entries, h.end, first, stamp)
	_, err := r.Exec(insertEntries, end.Seq, first, int64(h.end.Sum), int64(end.Sum), stamp.Instant, stamp.Wall,
		store.EncodeBatch(batch))
	h.end, h.last = end, stamp
	return entries, err
}

// ensureState makes the row of a store without a log, where there is none.
func (r rows) ensureState(had bool) error {
	_, err := r.Exec(`INSERT INTO log_state SELECT 1, 0, ?, 0, 0, 0, 0, '', 0, 0, 0, 0, 0
		WHERE NOT EXISTS (SELECT 1 FROM log_state)`, had)
	return err
}
