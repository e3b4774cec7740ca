"""What is measured: ours, others, floors. A new one is an entry in ``contenders``, and programs.

contender, contenders   what each is, and all of them
environments            where the others are installed, at which versions
servers/, hosting       a server each, with the same tools, resources and prompts
clients/, codecs/       where it has them: its client, its codec alone
floors/                 what does the same with no protocol at all
"""
