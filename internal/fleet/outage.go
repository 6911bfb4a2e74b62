package fleet

import "dappco.re/go/core/go-ratelimit/internal/account"

// cutOff has all members owe an answer to an outage. Who cannot give one may have used its share
// until its lease was over, and that counts for a window.
func (s *State) cutOff(outage int64, now account.Now) {
	shares := s.Size()
	for m := range s.Members {
		m.Owes, m.Shares = outage, shares
		m.Until = now.Instant + m.Lease + s.Engine.Span()
	}
	s.withhold(now)
}

// withhold withholds the shares of those that owe an answer.
func (s *State) withhold(now account.Now) {
	s.Engine.Withhold(s.withheld())
	s.Engine.Look(true, now)
}

func (s *State) withheld() (shares []account.Reserve) {
	for _, m := range s.members.all {
		if m.Owes != 0 {
			shares = append(shares, account.Reserve{Shares: m.Shares, Until: m.Until})
		}
	}
	return shares
}
