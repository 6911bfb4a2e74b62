package doctor

import (
	"context"
	"net/http"
	"time"
)

const (
	clockSlack = 2 * time.Second // the difference of clocks that is none: a Date header has seconds
	clockStep  = 100 * time.Millisecond
)

// clockBound is how long a server may take to say its time.
const clockBound = 10 * time.Second

// synchronised looks whether the system says that its clock is kept right. One that is not is no
// finding: that of a virtual machine may be set by its host, of which the system does not know.
func (e *examination) synchronised() {
	switch is, known := clockIsKept(); {
	case !known:
		e.note("whether a time service keeps the clock cannot be told on this system")
	case !is:
		e.note("no time service that the system knows keeps the clock: --clock URL asks a server for the time")
	}
}

// date compares the clock with the Date header of a server.
func (e *examination) date(ctx context.Context) {
	if e.ClockOf == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clockBound)
	defer cancel()
	asked := time.Now()
	at, err := dateOf(ctx, e.ClockOf)
	if err != nil {
		e.find(checkClock, e.ClockOf, "name another server with --clock", "it does not tell the time: %v", err)
		return
	}
	took := time.Since(asked)
	e.compare(e.ClockOf, at.Add(took/2), time.Since(e.Now))
}

// compare compares another clock with that of this machine, which has gone on for a while.
func (e *examination) compare(of string, other time.Time, since time.Duration) {
	off := other.Sub(e.Now.Add(since))
	if off.Abs() <= clockSlack {
		return
	}
	word := "behind"
	if off < 0 {
		word = "ahead of"
	}
	e.find(checkClock, of, "have a time service, such as chrony, keep the clock: days and months end by it",
		"the clock of this machine is %v %s it", off.Abs().Round(clockStep), word)
}

func dateOf(ctx context.Context, url string) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return time.Time{}, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	resp.Body.Close()
	return http.ParseTime(resp.Header.Get("Date"))
}
