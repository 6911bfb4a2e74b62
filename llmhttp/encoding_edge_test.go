package llmhttp_test

import (
	"runtime"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A goroutine that is locked to its thread, as those of graphics and of callbacks from C are, may
// read a compressed answer, and another one may close it.
func TestCompressedAnswerOnALockedThread(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, zip(t, sse(`{"choices":[{"delta":{"content":"x"}}]}`), strings.Repeat(" ", 1000)), "Content-Encoding: gzip")}
	locked := make(chan bool)
	go func() {
		defer close(locked)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
		if err != nil {
			t.Error(err)
			return
		}
		readOnce(t, resp, nil)
		if resp, err = post(t, tr, chatURL, `{"model":"m","stream":true}`); err != nil {
			t.Error(err)
			return
		}
		resp.Body.Read(make([]byte, 20))
		closed := make(chan bool)
		go func() { resp.Body.Close(); close(closed) }()
		<-closed
	}()
	<-locked
	if s := rl.Stats("m"); s.RPM != 2 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
}
