package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Error is an answer of a server that is an error, such as "NOAUTH ...".
type Error string

// Error returns the answer.
func (e Error) Error() string { return string(e) }

// conn is a connection to a server, in RESP3. It is for one goroutine at a time.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string, within time.Duration) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c)}, nil
}

// do sends a command and returns its answer: a string, int64, float64, bool, nil, []any,
// map[any]any, or an Error within one of these. An answer that is an Error is the error.
func (c *conn) do(within time.Duration, args ...any) (any, error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		text := fmt.Sprint(arg)
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(text), text)
	}
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	frame, err := readFrame(c.r, nil)
	if err != nil {
		return nil, err
	}
	value, _, err := parseFrame(string(frame))
	if answer, failed := value.(Error); failed {
		return nil, answer
	}
	return value, err
}

var errFrame = errors.New("an answer that is none of RESP")

// parseFrame returns the value of a whole frame, and what follows it.
func parseFrame(frame string) (value any, rest string, err error) {
	line, rest, ok := strings.Cut(frame, "\r\n")
	if !ok || line == "" {
		return nil, "", fmt.Errorf("%w: %q", errFrame, frame)
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return text, rest, nil
	case '-':
		return Error(text), rest, nil
	case '_':
		return nil, rest, nil
	case '#':
		return text == "t", rest, nil
	case ':':
		value, err = strconv.ParseInt(text, 10, 64)
		return value, rest, err
	case ',':
		value, err = strconv.ParseFloat(text, 64)
		return value, rest, err
	case '(':
		return text, rest, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%w: %q", errFrame, line)
	case n < 0:
		return nil, rest, nil
	}
	switch kind {
	case '$', '=', '!':
		if len(rest) < n+2 {
			return nil, "", fmt.Errorf("%w: %q", errFrame, line)
		}
		value, rest = rest[:n], rest[n+2:]
		if kind == '!' {
			value = Error(value.(string))
		}
		return value, rest, nil
	case '%':
		values, rest, err := parseFrames(rest, 2*n)
		all := make(map[any]any, n)
		for i := 0; i+1 < len(values); i += 2 {
			all[values[i]] = values[i+1]
		}
		return all, rest, err
	case '*', '~', '>':
		values, rest, err := parseFrames(rest, n)
		return values, rest, err
	}
	return nil, "", fmt.Errorf("%w: %q", errFrame, line)
}

func parseFrames(frames string, n int) (values []any, rest string, err error) {
	values = make([]any, 0, n)
	for range n {
		var value any
		if value, frames, err = parseFrame(frames); err != nil {
			return nil, "", err
		}
		values = append(values, value)
	}
	return values, frames, nil
}
