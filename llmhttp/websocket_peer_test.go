package llmhttp_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// wsFrame is a frame of a WebSocket as a peer reads it.
type wsFrame struct {
	final   bool
	code    byte
	masked  bool
	payload []byte // unmasked
	raw     []byte // as it came
}

// wsBytes returns the bytes of a frame.
func wsBytes(final bool, code byte, masked bool, payload []byte) []byte {
	first := code
	if final {
		first |= 0x80
	}
	b, mask := []byte{first}, byte(0)
	if masked {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if !masked {
		return append(b, payload...)
	}
	key := []byte{0x12, 0x00, 0xFE, byte(len(payload))}
	b = append(b, key...)
	for i, c := range payload {
		b = append(b, c^key[i&3])
	}
	return b
}

// text returns a message of the client in one frame.
func text(message string) []byte { return wsBytes(true, 1, true, []byte(message)) }

// readFrame reads a frame.
func readFrame(r io.Reader) (f wsFrame, err error) {
	var raw bytes.Buffer
	r = io.TeeReader(r, &raw)
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return f, err
	}
	f.final, f.code, f.masked = head[0]&0x80 != 0, head[0]&0x7F, head[1]&0x80 != 0
	size := uint64(head[1] & 0x7F)
	switch size {
	case 126:
		_, err = io.ReadFull(r, head[:2])
		size = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		_, err = io.ReadFull(r, head[:8])
		size = binary.BigEndian.Uint64(head[:])
	}
	var key [4]byte
	if err == nil && f.masked {
		_, err = io.ReadFull(r, key[:])
	}
	if err != nil {
		return f, err
	}
	f.payload = make([]byte, size)
	_, err = io.ReadFull(r, f.payload)
	for i := range f.payload {
		f.payload[i] ^= key[i&3]
	}
	f.raw = raw.Bytes()
	return f, err
}

// wsPeer is one end of a WebSocket, of which a goroutine reads all frames.
type wsPeer struct {
	io.ReadWriteCloser
	mu     sync.Mutex
	frames []wsFrame
	err    error // that ended the reading
	done   chan struct{}
}

func newPeer(conn io.ReadWriteCloser) *wsPeer {
	p := &wsPeer{ReadWriteCloser: conn, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		r := bufio.NewReader(conn)
		for {
			f, err := readFrame(r)
			p.mu.Lock()
			if p.err = err; err == nil {
				p.frames = append(p.frames, f)
			}
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

// got returns the frames since the last call, in a bubble in which nothing goes on.
func (p *wsPeer) got() []wsFrame {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.frames
	p.frames = nil
	return got
}

// texts returns the contents of the frames since the last call.
func (p *wsPeer) texts() (all []string) {
	for _, f := range p.got() {
		all = append(all, string(f.payload))
	}
	return all
}

// raw returns the bytes of the frames since the last call.
func (p *wsPeer) raw() []byte {
	var all bytes.Buffer
	for _, f := range p.got() {
		all.Write(f.raw)
	}
	return all.Bytes()
}

// tell sends a message of the server.
func (p *wsPeer) tell(t testing.TB, format string, args ...any) {
	t.Helper()
	p.write(t, wsBytes(true, 1, false, fmt.Appendf(nil, format, args...)))
}

func (p *wsPeer) write(t testing.TB, b []byte) {
	t.Helper()
	if n, err := p.Write(b); err != nil || n != len(b) {
		t.Errorf("wrote %d of %d bytes: %v", n, len(b), err)
	}
}

const socketURL = "http://llm.test/v1/responses"

// upgrade returns a request that opens a WebSocket.
func upgrade(t testing.TB, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Extensions": {"permessage-deflate"},
		"Authorization": {"Bearer sk-test"},
	}
	return req
}

// dial opens a WebSocket through a Transport, whose Base it sets. Both ends are closed at the end
// of the test.
func dial(t testing.TB, tr *llmhttp.Transport) (client, server *wsPeer) {
	t.Helper()
	near, far := net.Pipe()
	tr.Base = base(func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: 101, Header: http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}},
			Body: near, Request: req,
		}, nil
	})
	resp, err := tr.RoundTrip(upgrade(t, socketURL))
	if err != nil {
		t.Fatal(err)
	}
	client, server = newPeer(resp.Body.(io.ReadWriteCloser)), newPeer(far)
	return client, server
}

// closes closes both ends, and waits until nothing is left of the connection.
func closes(client, server *wsPeer) {
	client.Close()
	server.Close()
	<-client.done
	<-server.done
}

// create returns a response.create of the model "m" on a stream; on none without a name.
func create(stream, input string) []byte {
	event := map[string]any{"type": "response.create", "model": "m", "input": input}
	if stream != "" {
		event["stream_id"] = stream
	}
	b, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return text(string(b))
}

// on returns the field that names a stream in an event; nothing without a name.
func on(stream string) string {
	if stream == "" {
		return ""
	}
	return fmt.Sprintf(`"stream_id":%q,`, stream)
}

// completed is the last event of a response.
func completed(stream, id string, input, output int) string {
	return ended("completed", stream, id, fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, input, output))
}

func ended(how, stream, id, usage string) string {
	return fmt.Sprintf(`{"type":"response.%s",%s"response":{"id":%q,"status":%q,"output":[{"type":"message"}],"usage":%s}}`,
		how, on(stream), id, how, usage)
}

func created(stream, id string) string {
	return fmt.Sprintf(`{"type":"response.created",%s"response":{"id":%q,"status":"in_progress","usage":null}}`, on(stream), id)
}

// eventLog keeps the events of a Transport.
type eventLog struct {
	mu     sync.Mutex
	events []llmhttp.Event
}

func (l *eventLog) add(e llmhttp.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// of returns the events of a kind so far.
func (l *eventLog) of(kind llmhttp.EventKind) (all []llmhttp.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}
