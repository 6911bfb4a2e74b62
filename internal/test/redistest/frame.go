package redistest

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// maxFrame is the largest request or reply that the proxy passes on.
const maxFrame = 256 << 20

// readFrame appends one whole request or reply, in RESP2 or RESP3, to buf.
func readFrame(r *bufio.Reader, buf []byte) ([]byte, error) {
	for left := 1; left > 0; left-- {
		begin := len(buf)
		for {
			part, err := r.ReadSlice('\n')
			if buf = append(buf, part...); err == nil {
				break
			}
			if err != bufio.ErrBufferFull || len(buf) > maxFrame {
				return buf, err
			}
		}
		line := buf[begin:]
		if len(line) < 3 {
			return buf, fmt.Errorf("line %q is none of RESP", line)
		}
		n, err := strconv.Atoi(string(line[1 : len(line)-2]))
		switch line[0] {
		case '$', '=', '!':
			if err != nil || n > maxFrame {
				return buf, fmt.Errorf("line %q is none of RESP", line)
			}
			if n < 0 {
				continue // null
			}
			body := len(buf)
			buf = slices.Grow(buf, n+2)[:body+n+2]
			if _, err := io.ReadFull(r, buf[body:]); err != nil {
				return buf[:body], err
			}
		case '*', '~', '>', '%', '|':
			if err != nil || n > maxFrame {
				return buf, fmt.Errorf("line %q is none of RESP", line)
			}
			switch line[0] {
			case '%':
				n *= 2
			case '|': // in front of the value that it describes
				n = 2*n + 1
			}
			left += max(n, 0)
		}
	}
	return buf, nil
}
