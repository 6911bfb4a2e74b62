package llmhttp_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Both ends read what the other one wrote, byte for byte, however it is cut into pieces.
func TestSocketFramesUnchanged(t *testing.T) {
	message := []byte(`{"type":"response.create","model":"m","stream_id":"s","input":"` + strings.Repeat("héllo ", 60) + `"}`)
	fromClient := slices.Concat(
		wsBytes(true, 9, true, []byte("ping")), wsBytes(true, 1, true, message),
		wsBytes(false, 1, true, message[:9]), wsBytes(false, 0, true, nil), wsBytes(true, 0, true, message[9:]),
		wsBytes(true, 2, true, []byte(`{"type":"of bytes"}`)), wsBytes(true, 1, true, []byte(`{"type":"response.steer","previous_response_id":"r"}`)),
		wsBytes(true, 10, true, nil), wsBytes(true, 8, true, []byte("\x03\xE8")),
	)
	answer := []byte(completed("s", "resp_1", 5, 6))
	fromServer := slices.Concat(
		wsBytes(true, 9, false, nil), wsBytes(true, 1, false, []byte(created("s", "resp_1"))),
		wsBytes(false, 1, false, answer[:20]), wsBytes(true, 9, false, []byte("between")), wsBytes(true, 0, false, answer[20:]),
		wsBytes(true, 1, false, []byte(completed("s", "resp_2", 5, 6))), wsBytes(true, 2, false, bytes.Repeat([]byte{0}, 70_000)),
		wsBytes(true, 10, false, []byte("pong")), wsBytes(true, 8, false, []byte("\x03\xE8done")),
	)
	cut := func(b []byte, at ...int) (pieces [][]byte) {
		slices.Sort(at)
		begin := 0
		for _, end := range append(at, len(b)) {
			if end > begin {
				pieces = append(pieces, b[begin:end])
			}
			begin = max(begin, end)
		}
		return pieces
	}
	check := func(up, down [][]byte) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
			client, server := dial(t, &llmhttp.Transport{Limiter: rl})
			defer closes(client, server)
			for _, p := range up {
				client.write(t, p)
			}
			if got := server.raw(); !bytes.Equal(got, fromClient) {
				t.Errorf("the server got %d bytes of %d", len(got), len(fromClient))
			}
			for _, p := range down {
				server.write(t, p)
			}
			if got := client.raw(); !bytes.Equal(got, fromServer) {
				t.Errorf("the client got %d bytes of %d", len(got), len(fromServer))
			}
			if s := rl.Stats("m"); s.RPM != 2 || s.TPM != 22 || s.InFlight != 0 {
				t.Errorf("charged %+v", s)
			}
		})
	}
	check(cut(fromClient), cut(fromServer))
	check(slices.Collect(slices.Chunk(fromClient, 1)), slices.Collect(slices.Chunk(fromServer, 1)))
	for i := 1; i < len(fromClient); i += 7 {
		check(cut(fromClient, i), cut(fromServer, i, i+1+rand.IntN(300)))
	}
}

// A control frame between the fragments of a message passes at once, the message when it is whole.
func TestSocketControlBetweenFragments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		message := []byte(`{"type":"response.create","model":"m"}`)
		first, ping := wsBytes(false, 1, true, message[:11]), wsBytes(true, 9, true, []byte("now"))
		last := wsBytes(true, 0, true, message[11:])
		client.write(t, first)
		client.write(t, ping[:3])
		if got := server.raw(); len(got) > 0 {
			t.Errorf("half a message was sent: %x", got)
		}
		client.write(t, ping[3:])
		if got := server.raw(); !bytes.Equal(got, ping) {
			t.Errorf("got %x, want the ping", got)
		}
		client.write(t, last)
		if got := server.raw(); !bytes.Equal(got, append(first, last...)) {
			t.Errorf("got %x", got)
		}
		if s := rl.Stats("m"); s.RPM != 1 {
			t.Errorf("charged %+v", s)
		}
	})
}

// A message of the client over MaxBody closes the connection with 1009, of which both ends are
// told. One of the server of the same size passes.
func TestSocketMaxBody(t *testing.T) {
	const limit = 1000
	pad := func(n int) []byte {
		return []byte(`{"type":"response.create","model":"m","input":"` + strings.Repeat("x", n-49) + `"}`)
	}
	for _, test := range []struct {
		name  string
		write []byte
		ok    bool
	}{
		{"at the limit", text(string(pad(limit))), true},
		{"in two frames", slices.Concat(wsBytes(false, 1, true, pad(limit)[:300]), wsBytes(true, 0, true, pad(limit)[300:])), true},
		{"over it", text(string(pad(limit + 1))), false},
		{"over it with the last frame", slices.Concat(wsBytes(false, 1, true, pad(limit)), wsBytes(true, 0, true, []byte(" "))), false},
		{"its header alone", []byte{0x82, 0xFF, 0x7F, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
				client, server := dial(t, &llmhttp.Transport{Limiter: rl, MaxBody: limit})
				defer closes(client, server)
				client.write(t, create("open", "first"))
				server.got()
				half := wsBytes(true, 1, false, []byte(completed("open", "resp_1", 3, 4)))
				server.write(t, half[:10])
				synctest.Wait() // until it has come to the client's side
				n, err := client.Write(test.write)
				if test.ok {
					if got := server.raw(); err != nil || n != len(test.write) || !bytes.Equal(got, test.write) {
						t.Errorf("%v, the server got %d of %d bytes", err, len(got), len(test.write))
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), "MaxBody") {
					t.Errorf("no error: %v", err)
				}
				told := server.got()
				if len(told) != 1 || told[0].code != 8 || !told[0].masked || string(told[0].payload) != "\x03\xF1" {
					t.Errorf("the server was told %+v", told)
				}
				server.write(t, half[10:])
				got := client.got()
				if len(got) != 2 || !bytes.Equal(got[0].raw, half) {
					t.Fatalf("the client got %+v", got)
				}
				if f := got[1]; f.code != 8 || f.masked || string(f.payload) != "\x03\xF1" {
					t.Errorf("the client was told %+v", f)
				}
				if _, err := client.Write(create("open", "again")); err == nil {
					t.Error("it may send on")
				}
				if s := rl.Stats("m"); s.RPM != 1 || s.InFlight != 0 {
					t.Errorf("charged %+v", s)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl, MaxBody: limit})
		defer closes(client, server)
		client.write(t, create("", "first"))
		server.tell(t, `{"type":"response.completed","response":{"id":"r","output":[%q],"usage":{"input_tokens":3,"output_tokens":4}}}`, strings.Repeat("x", 50*limit))
		if got := client.got(); len(got) != 1 || len(got[0].payload) < 50*limit {
			t.Errorf("the client got %d frames", len(got))
		}
		if s := rl.Stats("m"); s.TPM != 7 || s.InFlight != 0 {
			t.Errorf("charged %+v", s)
		}
	})
}

// What breaks the protocol ends the connection with 1002: nothing behind it could be counted.
func TestSocketViolations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		client.write(t, create("", "first"))
		server.got()
		if _, err := client.Write([]byte{0xC1, 0x80, 1, 2, 3, 4}); err == nil {
			t.Error("a compressed message was sent")
		}
		for name, p := range map[string]*wsPeer{"server": server, "client": client} {
			if got := p.got(); len(got) != 1 || got[0].code != 8 || string(got[0].payload) != "\x03\xEA" {
				t.Errorf("the %s was told %+v", name, got)
			}
		}
		if s := rl.Stats("m"); s.RPM != 1 || s.TPM == 0 || s.InFlight != 0 {
			t.Errorf("charged %+v", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		client.write(t, create("", "first"))
		server.got()
		server.write(t, []byte{0xC1, 0})
		if got := client.got(); len(got) != 1 || got[0].code != 8 || string(got[0].payload) != "\x03\xEA" {
			t.Errorf("the client was told %+v", got)
		}
		if s := rl.Stats("m"); s.RPM != 1 || s.TPM == 0 || s.InFlight != 0 {
			t.Errorf("charged %+v", s)
		}
	})
}

// Messages that wait take at most MaxBody bytes; then Write blocks until one is sent, or the end.
func TestSocketQueueIsBounded(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
			client, server := dial(t, &llmhttp.Transport{Limiter: rl, MaxBody: 1000, Margin: -1})
			defer closes(client, server)
			long := strings.Repeat("x", 300)
			var wrote atomic.Int32
			done := make(chan error)
			go func() {
				for range 6 {
					if _, err := client.Write(create("s", long)); err != nil {
						done <- err
						return
					}
					wrote.Add(1)
				}
				done <- nil
			}()
			synctest.Wait()
			if wrote.Load() != 3 { // one was sent, and two wait
				t.Errorf("%d messages were taken", wrote.Load())
			}
			if closed {
				client.Close()
				if err := <-done; err == nil {
					t.Error("Write returned no error after Close")
				}
				return
			}
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
			if got := len(server.got()); wrote.Load() != 4 || got != 2 {
				t.Errorf("%d messages were taken, and %d sent", wrote.Load(), got)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
