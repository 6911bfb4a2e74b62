package redisstore

import (
	"fmt"
	"strings"
)

// facts are what the head of a log begins with: what seldom changes. A process that knows them
// knows the whole head, by the last event.
type facts struct {
	head   string // the bytes
	log    string // the identity
	shift  int64  // of the log's time against the server's clock, in microseconds
	folded int64  // see sharedlog.News
	inLine bool   // processes wait for a turn
}

// parseFacts reads what a head begins with.
func parseFacts(head string) (f facts, err error) {
	var shift, folded, line string
	f.head = head
	f.log, shift, _ = strings.Cut(head, " ")
	shift, folded, _ = strings.Cut(shift, " ")
	folded, line, _ = strings.Cut(folded, " ")
	if f.shift, err = parseInt(shift); err == nil {
		f.folded, err = parseInt(folded)
	}
	if f.inLine = line != "0 "; err != nil || f.inLine && line != "1 " {
		return facts{}, fmt.Errorf("%w: head %q", errReply, head)
	}
	return f, nil
}

// learn takes over the facts of a reply.
func (l *Log) learn(f facts) {
	if was := l.facts.Load(); was == nil || was.head != f.head {
		known := f // which alone is on the heap
		l.facts.Store(&known)
	}
}

// folded is the place up to which events may have been deleted: see sharedlog.News.
func (l *Log) folded() int64 {
	if f := l.facts.Load(); f != nil {
		return f.folded
	}
	return 0
}
