package fakeprovider

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// bufferSize is how many bytes of one direction of a connection wait at most for a
// reader before a writer waits.
const bufferSize = 256 << 10

// half is one direction of a connection.
type half struct {
	mu          sync.Mutex
	changed     sync.Cond
	data        []byte
	writeClosed bool // by the writer: after the data comes io.EOF
	readClosed  bool // by the reader: nothing can be written
	read, write deadline
}

func newHalf() *half {
	h := &half{}
	h.changed.L = &h.mu
	return h
}

// deadline is when reads or writes fail. The half's lock guards it.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set sets a deadline, and has those that wait wake up when it is there.
func (h *half) set(d *deadline, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changed.Broadcast()
		})
	}
	h.changed.Broadcast()
}

// errBroken is what a write says whose reader is gone.
var errBroken = errors.New("broken pipe")

// conn is an end of a connection in memory.
type conn struct {
	network *Network
	in, out *half
	close   sync.Once
}

func (c *conn) Read(p []byte) (int, error) {
	h := c.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readClosed:
			return 0, net.ErrClosed
		case h.read.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(h.data) > 0:
			n := copy(p, h.data)
			h.data = h.data[n:]
			h.changed.Broadcast()
			return n, nil
		case h.writeClosed:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (c *conn) Write(p []byte) (written int, err error) {
	h := c.out
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.writeClosed:
			return written, net.ErrClosed
		case h.write.passed():
			return written, os.ErrDeadlineExceeded
		case h.readClosed:
			return written, errBroken
		}
		if room := min(bufferSize-len(h.data), len(p)-written); room > 0 {
			h.data = append(h.data, p[written:written+room]...)
			written += room
			h.changed.Broadcast()
		}
		if written == len(p) {
			return written, nil
		}
		h.changed.Wait()
	}
}

// Close wakes whoever reads or writes at either end.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.close.Do(func() {
		err = nil
		for _, h := range []*half{c.in, c.out} {
			h.mu.Lock()
			if h == c.in {
				h.readClosed, h.data = true, nil
			} else {
				h.writeClosed = true
			}
			h.changed.Broadcast()
			h.mu.Unlock()
		}
		c.SetDeadline(time.Time{})
		c.network.count(-1)
	})
	return err
}

func (c *conn) LocalAddr() net.Addr  { return address{} }
func (c *conn) RemoteAddr() net.Addr { return address{} }

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.set(&c.in.read, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.set(&c.out.write, t)
	return nil
}
