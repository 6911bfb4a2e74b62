package llmhttp

import (
	"io"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
)

// watchedBody is the body of an answer that its flight watches.
type watchedBody flight

// Read reads the body.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.activeReads.Add(1)
	n, err := b.body.Read(p)
	b.activeReads.Add(-1)
	(*flight)(b).watch(p[:n], err)
	return n, err
}

// Close settles the flight and closes the body.
func (b *watchedBody) Close() (err error) {
	defer func() { err = b.body.Close() }() // also if OnEvent panics
	(*flight)(b).finish(false)
	return nil
}

// watch looks at the result of a Read of the body.
func (f *flight) watch(p []byte, err error) {
	f.mu.Lock()
	f.reads++
	if f.stage == answered {
		switch {
		case f.stream != nil:
			f.stream.feed(p)
		case f.header != nil:
			f.errorBody = append(f.errorBody, p[:min(len(p), maxErrorBody-len(f.errorBody))]...)
		}
	}
	faulted := f.fault != nil
	f.mu.Unlock()
	switch {
	case err != nil:
		f.finish(err == io.EOF)
	case faulted:
		f.finish(false) // nothing follows, and other calls are to know
	}
}

// value passes a value of the answer to the adapter.
func (f *flight) value(v jsonscan.Value) {
	if v.Path != nil {
		f.adapter.Response(f.call, &f.usage, valueOf(v))
	}
}
