package sdktest

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// socketServer is a server of the Responses API's WebSocket mode without a network. It answers each
// response.create with ten tokens of prompt and five of output.
type socketServer struct {
	got  []socketCreate // in their order
	at   []time.Time    // when each came
	ends chan error     // the end of each connection
}

type socketCreate struct {
	Type     string `json:"type"`
	Model    string `json:"model"`
	StreamID string `json:"stream_id"`
	Previous string `json:"previous_response_id"`
}

// RoundTrip opens a connection.
func (s *socketServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Upgrade") != "websocket" || req.URL.Path != "/v1/responses" || req.Header.Get("Authorization") != "Bearer key" {
		return nil, errors.New("no upgrade")
	}
	near, far := net.Pipe()
	go func() { s.ends <- s.serve(far) }()
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return &http.Response{StatusCode: 101, Proto: "HTTP/1.1", Body: near, Header: http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"},
		"Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(sum[:])},
	}}, nil
}

// serve answers until the client closes the connection.
func (s *socketServer) serve(conn net.Conn) error {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		code, message, err := clientFrame(r)
		if err != nil {
			return err
		}
		switch code {
		case 8:
			conn.Write(append([]byte{0x88, byte(len(message))}, message...))
			return nil
		case 9:
			conn.Write(append([]byte{0x8A, byte(len(message))}, message...))
			continue
		}
		var create socketCreate
		if err := json.Unmarshal(message, &create); err != nil {
			return err
		}
		s.got, s.at = append(s.got, create), append(s.at, time.Now())
		stream := ""
		if create.StreamID != "" {
			stream = fmt.Sprintf(`"stream_id":%q,`, create.StreamID)
		}
		const response = `"response":{"id":"resp_%d","object":"response","model":%q,"status":%q,"output":[],"usage":%s}}`
		for _, event := range []string{
			fmt.Sprintf(`{"type":"response.created","sequence_number":0,`+stream+response, len(s.got), create.Model, "in_progress", "null"),
			fmt.Sprintf(`{"type":"response.completed","sequence_number":1,`+stream+response, len(s.got), create.Model, "completed",
				`{"input_tokens":10,"output_tokens":5,"total_tokens":15}`),
		} {
			frame := binary.BigEndian.AppendUint16([]byte{0x81, 126}, uint16(len(event)))
			if _, err := conn.Write(append(frame, event...)); err != nil {
				return err
			}
		}
	}
}

// clientFrame reads a frame of the client that is not fragmented.
func clientFrame(r io.Reader) (code byte, payload []byte, err error) {
	var head [8]byte
	if _, err = io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	code = head[0] & 0x0F
	size := int(head[1] & 0x7F)
	if size == 126 {
		_, err = io.ReadFull(r, head[:2])
		size = int(binary.BigEndian.Uint16(head[:2]))
	}
	var mask [4]byte
	if err == nil {
		_, err = io.ReadFull(r, mask[:])
	}
	payload = make([]byte, size)
	if err == nil {
		_, err = io.ReadFull(r, payload)
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return code, payload, err
}

// socketClient returns a client of the SDK whose calls a Transport limits.
func socketClient(t *testing.T, server *socketServer, q ratelimit.ModelQuota, tr *llmhttp.Transport) (openai.Client, *ratelimit.RateLimiter) {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"m": q, "n": {MaxRPM: 1000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.ends = make(chan error, 10)
	tr.Limiter, tr.Base, tr.Margin = rl, server, -1
	return openai.NewClient(option.WithAPIKey("key"), option.WithBaseURL("http://llm.test/v1"),
		option.WithHTTPClient(&http.Client{Transport: tr, Timeout: time.Minute})), rl
}

// Five turns of the SDK's beta client at one request a minute take four minutes.
func TestSocketBeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, b := new(socketServer), newBooks()
		client, rl := socketClient(t, server, ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{OnEvent: b.event})
		opening, cancel := context.WithTimeout(t.Context(), time.Second)
		conn, err := client.Beta.Responses.Connect(opening, openai.BetaResponseConnectionOptions{})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 5 {
			event := fmt.Sprintf(`{"type":"response.create","model":"m","input":"hello","previous_response_id":"resp_%d"}`, i)
			if err := conn.SendRaw(t.Context(), json.RawMessage(event)); err != nil {
				t.Fatal(err)
			}
			for {
				event, err := conn.Recv(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if event.Type == "response.completed" {
					break
				}
			}
		}
		if took := time.Since(began); took < 4*time.Minute || took > 4*time.Minute+time.Second || len(server.got) != 5 {
			t.Errorf("%d turns took %v", len(server.got), took)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := <-server.ends; err != nil {
			t.Errorf("the server: %v", err)
		}
		if s := rl.Stats("m"); s.RPD != 5 || s.InFlight != 0 || b.settled != (ratelimit.Usage{PromptTokens: 50, OutputTokens: 25}) ||
			b.sources[llmhttp.SourceReported] != 5 {
			t.Errorf("%+v; settled %+v, %v", s, b.settled, b.sources)
		}
	})
}

// A lane of the SDK that waits holds up no other one, and a refused call is a protocol error of its
// lane.
func TestSocketLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, b := new(socketServer), newBooks()
		client, rl := socketClient(t, server, ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{OnEvent: b.event})
		ctx := llmhttp.WithMaxWait(t.Context(), 90*time.Second)
		conn, err := client.Responses.Connect(ctx, responses.ResponseConnectionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lanes := make(map[string]*responses.ResponseLane)
		for _, name := range []string{"slow", "fast"} {
			if lanes[name], err = conn.Lane(name); err != nil {
				t.Fatal(err)
			}
		}
		create := func(lane, model string) {
			t.Helper()
			err := conn.Create(t.Context(), responses.ResponsesClientEventResponseCreateParam{
				Model: responses.ResponsesModel(model), StreamID: openai.String(lane),
				Input: responses.ResponsesClientEventResponseCreateInputUnionParam{OfString: openai.String("hello")},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		create("slow", "m")
		create("slow", "m")
		create("slow", "m")
		create("fast", "n")
		for _, want := range []struct{ lane, id string }{{"fast", "resp_2"}, {"slow", "resp_1"}, {"slow", "resp_3"}} {
			resp, err := lanes[want.lane].FinalResponse(t.Context())
			if err != nil || resp.ID != want.id || resp.Usage.TotalTokens != 15 {
				t.Errorf("%s: got %+v, %v", want.lane, resp, err)
			}
		}
		create("slow", "m") // behind the third one, which has its place after a minute
		if resp, err := lanes["slow"].FinalResponse(t.Context()); err != nil || resp.ID != "resp_4" {
			t.Errorf("got %+v, %v", resp, err)
		}
		create("fast", "m")
		var protocol *responses.ResponseProtocolError
		rl.Cooldown("m", time.Now().Add(time.Hour))
		create("slow", "m")
		if _, err := lanes["slow"].FinalResponse(t.Context()); err != nil {
			if !errors.As(err, &protocol) {
				t.Fatal(err)
			}
			if p, ok := llmhttp.FromError(fmt.Errorf("wrapped: %w", err)); !ok || p.Kind != llmhttp.NotSent || p.Model != "m" || p.Status != 429 ||
				p.Code != string(ratelimit.DecisionCooldown) || p.RetryAfter < 59*time.Minute || !errors.Is(p, ratelimit.ErrMaxWait) {
				t.Errorf("found %+v, %v", p, ok)
			}
			raw := protocol.Event.RawJSON()
			if protocol.Event.Type != "error" || !strings.Contains(raw, "the call was not sent") || !strings.Contains(raw, `"status":429`) {
				t.Errorf("got %s", raw)
			}
		}
		if protocol == nil {
			t.Error("the call was not refused")
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		models := make([]string, len(server.got))
		for i, create := range server.got {
			models[i] = create.Model
		}
		if !slices.Equal(models[:4], []string{"m", "n", "m", "m"}) || rl.Stats("m").InFlight != 0 {
			t.Errorf("the server got %v; %+v", models, rl.Stats("m"))
		}
		<-server.ends
	})
}

// With NoWebSocket the SDK's error has the status that says why.
func TestNoSocket(t *testing.T) {
	server := new(socketServer)
	client, _ := socketClient(t, server, ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{NoWebSocket: true})
	_, err := client.Beta.Responses.Connect(t.Context(), openai.BetaResponseConnectionOptions{})
	if err == nil || !strings.Contains(err.Error(), "426") {
		t.Errorf("got %v", err)
	}
}
