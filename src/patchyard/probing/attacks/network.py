"""The network."""

from patchyard.probing.attack import Attack, Control, Evidence, Group
from patchyard.probing.evidence import reached, said


def _of(
    name: str, title: str, script: str, evidence: Evidence, control: Control = Control.PLAIN
) -> Attack:
    return Attack(
        name=name,
        group=Group.NETWORK,
        title=title,
        script=script,
        evidence=evidence,
        control=control,
        has_victim=control is Control.NAMESPACES,
    )


ATTACKS = (
    _of("tcp-loopback", "connect to the machine's loopback", "tcp", reached),
    _of("tcp-loopback-ipv6", "the same by IPv6", "tcp6", reached),
    _of("tcp-loopback-mapped", "the same by an IPv4 address in IPv6", "mapped", reached),
    _of("udp-loopback", "send packets to the machine's loopback", "udp", reached),
    _of("dns", "carry data out in questions for names", "dns", reached),
    _of("proxy-unset", "connect after all proxy variables are gone", "without_variables", reached),
    _of("metadata-route", "find a way to a cloud's metadata", "route_to_metadata", said),
    _of("other-networks-route", "find a way to other networks", "route_elsewhere", said),
    _of("raw-socket", "make packets of one's own", "raw_socket", said, Control.NAMESPACES),
    _of("packet-socket", "listen to what passes by", "packet_socket", said, Control.NAMESPACES),
    _of("hypervisor-socket", "speak to the hypervisor", "hypervisor_socket", said),
    _of("network-joined", "step into the machine's network", "join_namespace", reached),
)

__all__ = ["ATTACKS"]
