package redisstore

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func TestRow(t *testing.T) {
	batch := []store.Entry{
		{Process: 5, N: 1, Expect: 3, Command: []byte("one")}, {Process: 5, N: 2}, {Process: 6, N: -1, Command: []byte{0}},
	}
	row := string(encodeRow(batch))
	entries, err := appendRow(nil, 9, "42-1700000000000001", row)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%+v, error %v", entries, err)
	}
	for i, e := range entries {
		want := batch[i]
		if e.Process != want.Process || e.N != want.N || e.Expect != want.Expect || string(e.Command) != string(want.Command) ||
			e.At.Log != 9 || e.At.Seq != 40+int64(i) || e.Stamp != (store.Stamp{Wall: 1700000000000001000}) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	later, err := appendRow(nil, 9, "42-1700000000000002", row)
	if err != nil || later[2].At.Sum == entries[2].At.Sum || later[0].At.Sum == later[1].At.Sum {
		t.Errorf("the sums are %+v and %+v, error %v", entries[2].At, later[2].At, err)
	}
	for name, bad := range map[string][2]string{
		"no number":      {"-1", row},
		"no time":        {"42", row},
		"no row":         {"42-1", ""},
		"a short row":    {"42-1", row[:6]},
		"another hash":   {"42-1", "\x00" + row[1:]},
		"another letter": {"42-1", row[:len(row)-1] + "x"},
	} {
		if entries, err := appendRow(nil, 9, bad[0], bad[1]); !errors.Is(err, errRow) {
			t.Errorf("%s: %+v, error %v", name, entries, err)
		}
	}
}

func TestSumOfPlace(t *testing.T) {
	for _, sum := range []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<63 | 5, 1<<64 - 1} {
		parts := strings.SplitN(placeText(store.Position{Sum: sum}), ":", 4)
		low, _ := strconv.ParseUint(parts[2], 10, 32)
		if is := joinSum(uint32(low), binary.BigEndian.Uint32([]byte(parts[3]))); is != sum {
			t.Errorf("%x becomes %x", sum, is)
		}
	}
}

// A reply of anything has no place of another log, and panics nowhere.
func FuzzDecodePage(f *testing.F) {
	f.Add("ok", "1700000000000001", "42", "42-1700000000000001", string(encodeRow([]store.Entry{{Process: 1}})))
	f.Add("lost", "", "", "", "")
	f.Fuzz(func(t *testing.T, status, us, last, id, row string) {
		after := store.Position{Log: 1, Sum: 2, Seq: 3}
		reply := []any{status, us, last, []any{[]any{id, []any{"b", row}}}}
		news, err := decodePage(after, reply, []store.Entry{{Process: 9}})
		for _, e := range news.Entries {
			if err != nil || e.At.Log != 1 {
				t.Errorf("%+v beside error %v", e, err)
			}
		}
	})
}

// Whatever the hash says of an image: it is refused, or names one, whose place is written so again.
func FuzzMeta(f *testing.F) {
	f.Add("5", "7", "42", "\x01\x02\x03\x04", "prefix:image:x", "2", "131073")
	f.Add("18446744073709551615", "-1", "4294967296", "", "", "", "x")
	f.Fuzz(func(t *testing.T, log, seq, low, hash, key, pieces, size string) {
		parse := func(log, seq, low, hash string) (m meta, at store.Position, err error) {
			found := redis.NewSliceCmd(t.Context(), "hmget", "key", "log", "iseq", "ilow", "ihash", "image", "pieces", "size")
			found.SetVal([]any{log, seq, low, hash, key, pieces, size})
			if err = found.Scan(&m); err == nil {
				at, err = m.place()
			}
			return m, at, err
		}
		m, at, err := parse(log, seq, low, hash)
		if err != nil {
			return
		}
		p := strings.SplitN(placeText(at), ":", 4)
		if again, same, err := parse(p[0], p[1], p[2], p[3]); err != nil || again != m || same != at {
			t.Errorf("%+v, and again %+v, %v", m, again, err)
		}
	})
}
