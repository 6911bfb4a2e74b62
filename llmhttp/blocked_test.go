package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// incomingBody blocks for a time, and closes once its Read has ended, as the body of a request that
// a server got over HTTP/1 does.
type incomingBody struct {
	io.Reader
	block time.Duration
	free  chan struct{}
}

func (b *incomingBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.free
	time.Sleep(b.block)
	b.free <- struct{}{}
	return 0, io.EOF
}

func (b *incomingBody) Close() error {
	<-b.free
	b.free <- struct{}{}
	return nil
}

// A body that blocks does not outlive the context, whatever its form, and also if its Close waits
// for its Read.
func TestIncomingBodyThatBlocksEndsWithTheContext(t *testing.T) {
	const begins = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx"
	for _, test := range []struct{ path, contentType, piece string }{
		{"/v1/chat/completions", "application/json", ""},
		{"/v1/chat/completions", "application/json", `{"model":"m","messages":"`},
		{"/v1/unheard-of", "application/json", `{"messages":"`},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b", ""},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b", begins},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b", begins + strings.Repeat("x", 100_000)},
	} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(*http.Request) (*http.Response, error) {
				t.Error("it was sent")
				return nil, errors.New("sent")
			})}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			body := &incomingBody{strings.NewReader(test.piece), 3 * time.Second, make(chan struct{}, 1)}
			body.free <- struct{}{}
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://llm.test"+test.path, body)
			req.Header.Set("Content-Type", test.contentType)
			began := time.Now()
			_, err := tr.RoundTrip(req)
			if took := time.Since(began); took > 250*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s %.30q: after %v: %v", test.path, test.piece, took, err)
			}
			time.Sleep(body.block) // the last Read ends in its own time
		})
	}
}
