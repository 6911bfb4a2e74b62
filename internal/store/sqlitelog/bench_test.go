//go:build !nosqlite

package sqlitelog

import (
	"path/filepath"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// BenchmarkAppend appends entries one by one, and in batches of 100, beside a bare transaction that
// inserts one row of their size.
func BenchmarkAppend(b *testing.B) {
	for name, size := range map[string]int64{"one": 1, "hundred": 100} {
		b.Run(name, func(b *testing.B) {
			l := benchLog(b)
			at, batch := start.At, entries(1, size)
			for i := range batch {
				batch[i].Command = make([]byte, 60)
			}
			for b.Loop() {
				news, err := l.Append(b.Context(), at, batch)
				if err != nil {
					b.Fatal(err)
				}
				at = news.End(at)
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		l := benchLog(b)
		row := make([]byte, 80)
		for n := int64(1); b.Loop(); n++ {
			w := l.file.writer
			for _, statement := range []func() error{
				func() error { _, err := w.Exec("BEGIN IMMEDIATE"); return err },
				func() error { _, err := w.Exec(insertEntries, n, 0, 0, 0, 0, 0, row); return err },
				func() error { _, err := w.Exec("COMMIT"); return err },
			} {
				if err := statement(); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkRead asks for news where there are none.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	for b.Loop() {
		if _, err := l.Read(b.Context(), start.At, 0, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func benchLog(b *testing.B) *Log {
	b.Helper()
	l, err := (&Store{Path: filepath.Join(b.TempDir(), "s.db")}).Open(b.Context(), store.Options{Process: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	if err := l.Begin(b.Context(), 0, start); err != nil {
		b.Fatal(err)
	}
	return l.(*Log)
}
