package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// errRow is in the error of what no process of this library can have written.
var errRow = errors.New("malformed row")

// hashBytes is how many bytes of a row hash its batch.
const hashBytes = 4

// placeText returns a place as the scripts have it: the log, the number, and the two halves of the
// sum. The first of these is the last nine digits of a time, in microseconds.
func placeText(at store.Position) string {
	hash := binary.BigEndian.AppendUint32(nil, uint32(at.Sum>>32))
	return fmt.Sprintf("%d:%d:%09d:%s", at.Log, at.Seq, uint32(at.Sum), hash)
}

func joinSum(low, hash uint32) uint64 { return uint64(hash)<<32 | uint64(low) }

// hashes gives the entries of a batch their sums but for the time, and returns the last: each is a
// hash of the batch up to the entry, and not of what comes before the batch, which its sender does
// not know.
func hashes(batch []store.Entry) (last uint32) {
	chain := uint64(0)
	for i := range batch {
		e := &batch[i]
		e.Stamp = store.Stamp{} // which is in the sum as the time
		chain = e.Sum(chain)
		e.At.Sum = joinSum(0, uint32(chain))
	}
	return uint32(chain)
}

// place gives the entries of a batch, which have their hashes, their places and their stamp.
func place(batch []store.Entry, log uint64, last, us int64) {
	first := last - int64(len(batch)) + 1
	for i := range batch {
		e := &batch[i]
		e.At = store.Position{Log: log, Seq: first + int64(i), Sum: e.At.Sum | joinSum(uint32(us%1e9), 0)}
		e.Stamp = stampOf(us)
	}
}

// encodeRow returns a batch as a row has it. The batch gets its hashes.
func encodeRow(batch []store.Entry) []byte {
	return append(binary.BigEndian.AppendUint32(nil, hashes(batch)), store.EncodeBatch(batch)...)
}

// appendRow appends the entries of a row.
func appendRow(all []store.Entry, log uint64, id, row string) ([]store.Entry, error) {
	seq, us, err := parseRowID(id)
	if err != nil {
		return nil, err
	}
	if len(row) < hashBytes {
		return nil, fmt.Errorf("%w %q", errRow, id)
	}
	n := len(all)
	all, err = store.AppendBatch(all, []byte(row[hashBytes:]))
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", errRow, id, err)
	}
	if hashes(all[n:]) != binary.BigEndian.Uint32([]byte(row[:hashBytes])) {
		return nil, fmt.Errorf("%w %q: its hash is another one", errRow, id)
	}
	place(all[n:], log, seq, us)
	return all, nil
}

func stampOf(us int64) store.Stamp { return store.Stamp{Wall: us * 1000} }

func parseRowID(id string) (seq, us int64, err error) {
	first, second, _ := strings.Cut(id, "-")
	if seq, err = parseNumber(first); err == nil {
		us, err = parseNumber(second)
	}
	return seq, us, err
}

func parseNumber(text any) (n int64, err error) {
	if n, err = strconv.ParseInt(fmt.Sprint(text), 10, 64); err != nil {
		err = fmt.Errorf("%w: %w", errRow, err)
	}
	return n, err
}

// statusOf returns the error that a status of a script stands for.
func statusOf(status any) error {
	switch status {
	case "ok":
		return nil
	case "lost":
		return notWritten(store.ErrLost)
	case "trimmed":
		return notWritten(store.ErrTrimmed)
	case "older":
		return store.ErrOlder
	case "lives":
		return errFormerLives
	case "gone":
		return errors.New("pieces of the image are missing")
	}
	return fmt.Errorf("%w: status %v", errRow, status)
}

// decodePage returns the page in a reply of append.lua, with the own batch where it is on it. That
// gets its places.
func decodePage(after store.Position, reply any, own []store.Entry) (news store.News, err error) {
	values, ok := reply.([]any)
	if !ok { // but the time: the place is the end, which is the common case
		values = []any{"ok", reply, after.Seq + int64(len(own)), nil}
	}
	if len(values) > 0 {
		err = statusOf(values[0])
	}
	if err == nil && len(values) != 4 {
		err = fmt.Errorf("%w: a reply of %d values", errRow, len(values))
	}
	if err != nil {
		return news, err
	}
	us, err := parseNumber(values[1])
	if err != nil {
		return news, err
	}
	last, err := parseNumber(values[2])
	if err != nil {
		return news, err
	}
	rows, _ := values[3].([]any)
	news.Now, news.More = stampOf(us), len(rows) == pageRows
	room := make([]store.Entry, 0, min(max(last-after.Seq, 0), usualPage))
	if news.Entries, err = decodeRows(room, after, rows); err != nil {
		return store.News{}, err
	}
	if !news.More {
		place(own, after.Log, last, us)
		news.Entries = append(news.Entries, own...)
	}
	return news, nil
}

// usualPage is how many entries a page seldom exceeds.
const usualPage = 1 << 13

// decodeRows appends to all, which is empty, the entries behind a place, which may be within the
// first row.
func decodeRows(all []store.Entry, after store.Position, rows []any) (_ []store.Entry, err error) {
	for _, r := range rows {
		row, _ := r.([]any)
		if len(row) != 2 {
			return nil, fmt.Errorf("%w: %v", errRow, r)
		}
		id, _ := row[0].(string)
		fields, _ := row[1].([]any)
		if len(fields) != 2 {
			return nil, fmt.Errorf("%w %q: %d fields", errRow, id, len(fields))
		}
		content, _ := fields[1].(string)
		first := len(all) == 0
		if all, err = appendRow(all, after.Log, id, content); err == nil && first {
			all, err = behind(after, all)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// behind returns the entries of a row that are behind a place.
func behind(after store.Position, row []store.Entry) ([]store.Entry, error) {
	for i := range row {
		switch at := row[i].At; {
		case at == after:
			return row[i+1:], nil
		case at.Seq == after.Seq:
			return nil, fmt.Errorf("entry %d is another one: %w", at.Seq, store.ErrLost)
		}
	}
	return row, nil
}
