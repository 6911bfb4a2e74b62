// Package mirrorlog has a log in memory and one elsewhere live the same life, and compares them.
// Only tests import it.
package mirrorlog

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// question is an operation of a log of a process, or the beginning of another store.
type question struct {
	Kind    string
	Options store.Options // of which Report is not sent
	After   store.Position
	Batch   []store.Entry
	Old     uint64
	Image   store.Image
}

type answer struct {
	News   store.News
	Image  store.Image
	Errors int    // which of the kinds it is
	Text   string // of the error
}

// kinds are the errors that all stores return alike.
var kinds = []error{store.ErrTrimmed, store.ErrLost, store.ErrOlder}

func kindOf(err error) (bits int) {
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			bits |= 1 << i
		}
	}
	return bits
}

// Serve answers Mirrors until the connection ends. empty makes the store of each.
func Serve(conn io.ReadWriter, empty func() (store.Store, error)) error {
	in, out := gob.NewDecoder(conn), gob.NewEncoder(conn)
	var s store.Store
	logs := make(map[int64]store.Log)
	for {
		var q question
		if err := in.Decode(&q); err != nil {
			return err
		}
		var a answer
		var err error
		ctx, l := context.Background(), logs[q.Options.Process]
		switch q.Kind {
		case "empty":
			s, err = empty()
		case "open":
			logs[q.Options.Process], err = s.Open(ctx, q.Options)
		case "append":
			a.News, err = l.Append(ctx, q.After, q.Batch)
		case "read":
			a.News, err = l.Read(ctx, q.After, 0, 0)
		case "load":
			a.Image, err = l.Load(ctx)
		case "save":
			err = l.Save(ctx, q.Image)
		case "begin":
			err = l.Begin(ctx, q.Old, q.Image)
		case "close":
			err = l.Close()
			delete(logs, q.Options.Process)
		}
		if err != nil {
			a.Errors, a.Text = kindOf(err), err.Error()
		}
		if err := out.Encode(&a); err != nil {
			return err
		}
	}
}

// Remote is the end of a connection that asks who serves it.
type Remote struct {
	in  *gob.Decoder
	out *gob.Encoder
}

// NewRemote returns the end of a connection.
func NewRemote(conn io.ReadWriter) *Remote {
	return &Remote{gob.NewDecoder(conn), gob.NewEncoder(conn)}
}

// Mirror is a store in the memory of a bubble that has a remote one do the same, and compares what
// they say. It hands on the bytes of the remote one, and the instants and positions of the one in
// memory, whose clock is the bubble's. Nobody reads from the connection between two operations, so
// the clock of the bubble moves on.
type Mirror struct {
	memory store.Store
	remote *Remote

	mu    sync.Mutex
	there map[store.Position]store.Position // of the remote store, by that in memory
	err   error
}

// NewMirror returns a Mirror over an empty store in memory.
func NewMirror(memory store.Store, remote *Remote) *Mirror {
	m := &Mirror{memory: memory, remote: remote, there: make(map[store.Position]store.Position)}
	m.askLocked(question{Kind: "empty"}, nil)
	return m
}

// Err returns the first difference between the stores.
func (m *Mirror) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *Mirror) differLocked(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// placeLocked returns the position in the remote store.
func (m *Mirror) placeLocked(at store.Position) store.Position {
	if there, ok := m.there[at]; ok {
		return there
	}
	return at
}

// askLocked asks the remote store what the one in memory has answered with an error or none.
func (m *Mirror) askLocked(q question, err error) (a answer) {
	q.After, q.Image.At = m.placeLocked(q.After), m.placeLocked(q.Image.At)
	if err := errors.Join(m.remote.out.Encode(&q), m.remote.in.Decode(&a)); err != nil {
		m.differLocked("%s: %w", q.Kind, err)
	} else if a.Errors != kindOf(err) || (a.Text != "") != (err != nil) {
		m.differLocked("%s behind %+v: memory says %v, the remote store %q", q.Kind, q.After, err, a.Text)
	}
	return a
}

// Open implements store.Store.
func (m *Mirror) Open(ctx context.Context, o store.Options) (store.Log, error) {
	l, err := m.memory.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Report = nil
	m.askLocked(question{Kind: "open", Options: o}, nil)
	return &mirrored{l, m, store.Options{Process: o.Process}}, nil
}

type mirrored struct {
	store.Log
	m       *Mirror
	options store.Options
}

// Traits are those of the store in memory.
func (l *mirrored) Traits() store.Traits { return store.TraitsOf(l.Log) }

// do has both stores do the same, one after the other, and not at all if the context has ended.
func (l *mirrored) do(ctx context.Context, q question, here func(context.Context) error, took func(answer)) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if ctx.Err() != nil {
		return here(ctx)
	}
	err := here(context.WithoutCancel(ctx))
	if err != nil && kindOf(err) == 0 {
		return err // it is closed
	}
	q.Options = l.options
	if a := l.m.askLocked(q, err); err == nil && l.m.err == nil {
		took(a)
	}
	return err
}

// Append implements store.Log.
func (l *mirrored) Append(ctx context.Context, after store.Position, batch []store.Entry) (news store.News, err error) {
	return l.page(ctx, question{Kind: "append", After: after, Batch: batch})
}

// Read implements store.Log. It waits for the store in memory, and reads then from both.
func (l *mirrored) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	news, err := l.Log.Read(ctx, after, wait, gather)
	if err != nil && kindOf(err) == 0 || err == nil && news.Now == (store.Stamp{}) {
		return news, err
	}
	return l.page(ctx, question{Kind: "read", After: after})
}

func (l *mirrored) page(ctx context.Context, q question) (news store.News, err error) {
	err = l.do(ctx, q, func(ctx context.Context) (err error) {
		news, err = l.Log.Append(ctx, q.After, q.Batch)
		return err
	}, func(a answer) { l.m.handOnLocked(&news, a.News) })
	return news, err
}

// handOnLocked compares two pages, and puts the remote bytes into the one from memory.
func (m *Mirror) handOnLocked(here *store.News, there store.News) {
	if len(here.Entries) != len(there.Entries) && !here.More && !there.More {
		m.differLocked("memory has %d entries, the remote store %d", len(here.Entries), len(there.Entries))
	}
	n := min(len(here.Entries), len(there.Entries))
	here.More = here.More || n < len(here.Entries)
	here.Entries = here.Entries[:n]
	for i := range here.Entries {
		a, b := &here.Entries[i], &there.Entries[i]
		known, ok := m.there[a.At]
		if a.Process != b.Process || a.N != b.N || a.Expect != b.Expect || !bytes.Equal(a.Command, b.Command) || ok && known != b.At {
			m.differLocked("memory has %+v, the remote store %+v, which was at %+v", *a, *b, known)
		}
		m.there[a.At], a.Command = b.At, b.Command
	}
}

// Load implements store.Log.
func (l *mirrored) Load(ctx context.Context) (image store.Image, err error) {
	err = l.do(ctx, question{Kind: "load"}, func(ctx context.Context) (err error) {
		image, err = l.Log.Load(ctx)
		return err
	}, func(a answer) {
		if l.m.placeLocked(image.At) != a.Image.At || !bytes.Equal(image.Bytes, a.Image.Bytes) {
			l.m.differLocked("memory has an image of %+v, the remote store one of %+v", image.At, a.Image.At)
		}
		image.Bytes = a.Image.Bytes
	})
	return image, err
}

// Save implements store.Log.
func (l *mirrored) Save(ctx context.Context, image store.Image) error {
	return l.do(ctx, question{Kind: "save", Image: image}, func(ctx context.Context) error { return l.Log.Save(ctx, image) }, func(answer) {})
}

// Begin implements store.Log.
func (l *mirrored) Begin(ctx context.Context, old uint64, image store.Image) error {
	return l.do(ctx, question{Kind: "begin", Old: old, Image: image}, func(ctx context.Context) error { return l.Log.Begin(ctx, old, image) }, func(answer) {})
}

// Close implements store.Log.
func (l *mirrored) Close() error {
	return l.do(context.Background(), question{Kind: "close"}, func(context.Context) error { return l.Log.Close() }, func(answer) {})
}
